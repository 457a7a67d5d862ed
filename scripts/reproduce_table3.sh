#!/usr/bin/env bash
# Every row of the paper's Table 3: trained, evaluated on the dev set (the last checkpoint, none
# averaged: section 6.2), and put beside the published figures.
#
#   bash scripts/reproduce_table3.sh [--scale] [arguments of the trainer]
#
# Whole, a row took the paper 12 hours on eight P100 GPUs (the last one 3.5 days). --scale takes
# Multi30k in place of WMT14 and models of an eighth of the widths and half the layers: minutes a row.
# Interrupted, it goes on where it stopped: rows that have been evaluated are left alone. Some rows
# only: ROWS="base_ende a_1_head" bash scripts/reproduce_table3.sh. Arguments go to the trainer, e.g.
# --gin_param="Multi30kCorpus.local_dir = 'path/to/a/copy'".
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh plots
# The trainer ends well when it is interrupted, with a checkpoint; the other rows must not follow.
trap 'echo "interrupted: the same command goes on from here" >&2; exit 130' INT TERM

all_rows="base_ende
a_1_head a_4_heads a_16_heads a_32_heads
b_d_k_16 b_d_k_32
c_2_layers c_4_layers c_8_layers c_d_model_256 c_d_model_1024 c_d_ff_1024 c_d_ff_4096
d_dropout_0_0 d_dropout_0_2 d_label_smoothing_0_0 d_label_smoothing_0_2
e_learned_positions
big_ende"

runs=runs
scale=""
if [ "${1:-}" = "--scale" ]; then
    scale=yes
    runs=runs/table_3_multi30k
    shift
fi

# The gin file of a row: as it is, or on the small base with its widths divided by eight, its layers by two.
gin_file_of() {
    local row="$1" file="gin/ablations/$1.gin"
    if [ ! -f "$file" ]; then file="gin/$row.gin"; fi
    if [ -z "$scale" ]; then echo "$file"; return; fi
    mkdir -p "$runs/gin"
    {
        case "$row" in
            base_ende | big_ende) echo "include 'gin/table_3_multi30k.gin'" ;;
            *) sed "s|include 'gin/base_ende.gin'|include 'gin/table_3_multi30k.gin'|" "$file" ;;
        esac
        case "$row" in
            b_d_k_16) echo "LayerConfig.d_k = 2" ;;
            b_d_k_32) echo "LayerConfig.d_k = 4" ;;
            c_2_layers) echo "Transformer.num_layers = 1" ;;
            c_4_layers) echo "Transformer.num_layers = 2" ;;
            c_8_layers) echo "Transformer.num_layers = 4" ;;
            c_d_model_256) echo "d_model = 32" ;;
            c_d_model_1024) echo "d_model = 128" ;;
            c_d_ff_1024) echo "LayerConfig.d_ff = 128" ;;
            c_d_ff_4096) echo "LayerConfig.d_ff = 512" ;;
            big_ende)
                echo "d_model = 128"
                echo "LayerConfig.d_ff = 512"
                echo "LayerConfig.num_heads = 16"
                echo "LayerConfig.dropout = 0.3"
                echo "Pace.steps = 7500"
                ;;
        esac
    } > "$runs/gin/$row.gin"
    echo "$runs/gin/$row.gin"
}

for row in ${ROWS:-$all_rows}; do
    model_dir="$runs/$row/model"
    if [ -f "$model_dir/scores/dev.json" ]; then
        echo "== $row: done"
        continue
    fi
    echo "== $row"
    gin_file="$(gin_file_of "$row")"
    # All rows read the same data.
    python -m t2t_repro.trainer --gin_file="$gin_file" --model_dir="$model_dir" \
        --data_dir="$runs/table_3_data" "$@"
    python -m t2t_repro.evaluate --model_dir="$model_dir" --data_dir="$runs/table_3_data" \
        --split=dev --checkpoint=latest
done
python -m t2t_repro.report --runs="$runs" --output="$runs/report"
