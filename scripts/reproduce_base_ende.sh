#!/usr/bin/env bash
# The paper's base model on WMT 2014 English→German, from the download to BLEU. Made for GPUs: the
# paper took 12 hours on eight. Arguments go to the trainer.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh gpu
python -m t2t_repro.trainer --gin_file=gin/base_ende.gin "$@"
python -m t2t_repro.average --model_dir=runs/base_ende/model --last=5
python -m t2t_repro.evaluate --model_dir=runs/base_ende/model --split=test --confidence
