#!/usr/bin/env bash
# From a bare clone to translations in about five minutes of two CPU cores; nothing is downloaded but
# Python packages. Running it again reuses what is there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# 1. A virtual environment with the package in it.
source scripts/environment.sh quickstart

# 2. Data, then training: 120,000 synthetic sentence pairs, a Transformer of 1.2 million parameters.
echo "== training (gin/quickstart.gin; watch it with: tensorboard --logdir runs/quickstart)"
python -m t2t_repro.trainer --gin_file=gin/quickstart.gin

# 3. The mean of the last five checkpoints.
echo "== averaging"
python -m t2t_repro.average --model_dir=runs/quickstart/model --last=5

# 4. Scores on 1,000 sentences that training has not seen.
echo "== evaluating on the held-out test set"
python -m t2t_repro.evaluate --model_dir=runs/quickstart/model --split=test

# 5. Three more, in the corpus's manner: it knows no other.
echo "== translating"
sentences="Emma flew from Iceland to Portugal on March 3, 2021.
The museum is open from 9:00 AM to 5:30 PM on Friday.
Paul read 95 pages in 47 minutes."
translations="$(echo "$sentences" | python -m t2t_repro.translate --model_dir=runs/quickstart/model)"
paste -d '\n' <(echo "$sentences") <(echo "$translations" | sed 's/^/    → /')

echo "== now your own: python -m t2t_repro.translate --model_dir=runs/quickstart/model"
