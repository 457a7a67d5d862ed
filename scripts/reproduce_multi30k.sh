#!/usr/bin/env bash
# Multi30k en→de, text only, by the protocol of Wu et al. 2021: published 41.02 on test_2016_flickr.
# About two hours on two CPU cores. Arguments go to the trainer, e.g. --gin_param='train.seed = 2' or
# --gin_param="Multi30kCorpus.local_dir = 'path/to/a/copy'".
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh
python -m t2t_repro.trainer --gin_file=gin/multi30k_tiny.gin "$@"
python -m t2t_repro.average --model_dir=runs/multi30k_tiny/model --last=10
for split in dev test test_2017_flickr; do
    echo "== $split"
    python -m t2t_repro.evaluate --model_dir=runs/multi30k_tiny/model --split="$split"
done
