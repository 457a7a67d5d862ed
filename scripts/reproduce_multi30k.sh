#!/usr/bin/env bash
# Multi30k en→de, text only, by the protocol of Wu et al. 2021: published 41.02 on test_2016_flickr.
# Three seeds, about an hour and a half each on one CPU core. Interrupted, it goes on where it stopped.
# Other seeds: SEEDS="4 5" bash scripts/reproduce_multi30k.sh. Several at a time: call it again with
# other seeds. Arguments go to the trainer. Without a network, see scripts/multi30k.sh first.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh base
bash scripts/multi30k.sh
# The trainer ends well when it is interrupted, with a checkpoint; other seeds must not follow.
trap 'echo "interrupted: the same command goes on from here" >&2; exit 130' INT TERM

runs=runs/multi30k_tiny
for seed in ${SEEDS:-1 2 3}; do
    model_dir="$runs/seed_$seed/model"
    if [ -f "$model_dir/scores/test_2017_flickr.json" ]; then
        echo "== seed $seed: done"
        continue
    fi
    echo "== seed $seed"
    python -m t2t_repro.trainer --gin_file=gin/multi30k_tiny.gin --model_dir="$model_dir" \
        --data_dir="$runs/data" --gin_param="train.seed = $seed" "$@"
    python -m t2t_repro.average --model_dir="$model_dir" --last=10
    for split in dev test test_2017_flickr; do
        echo "== seed $seed, $split"
        python -m t2t_repro.evaluate --model_dir="$model_dir" --data_dir="$runs/data" --split="$split"
    done
done
