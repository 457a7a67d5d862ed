#!/usr/bin/env bash
# Every row of the paper's Table 3: trained, evaluated on the dev set (the last checkpoint, none
# averaged: section 6.2), and put beside the published figures.
#
#   bash scripts/reproduce_table3.sh [--scale] [arguments of the trainer]
#
# In full, a row took the paper 12 hours on eight P100 GPUs (big 3.5 days). --scale uses Multi30k in
# place of WMT14, a quarter of the widths, half the layers, and three seeds a row, one run a core:
# about 11 core hours in all. Interrupted or killed, the same command goes on.
#
#   ROWS="base_ende a_1_head"   these rows only
#   SEEDS="1 2 3"               of each row, in runs/<row>/seed_<n>; without it one run, in runs/<row>
#   JOBS=2                      runs at a time, each with a log of its own
#   EARLIER=table_3.csv         of another machine: its runs count in the report
set -euo pipefail
earlier="${EARLIER:+$(realpath "$EARLIER")}"
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh plots

all_rows="base_ende
a_1_head a_4_heads a_16_heads a_32_heads
b_d_k_16 b_d_k_32
c_2_layers c_4_layers c_8_layers c_d_model_256 c_d_model_1024 c_d_ff_1024 c_d_ff_4096
d_dropout_0_0 d_dropout_0_2 d_label_smoothing_0_0 d_label_smoothing_0_2
e_learned_positions
big_ende"


runs=runs
scale=""
seeds="${SEEDS:-}"
jobs="${JOBS:-1}"
if [ "${1:-}" = "--scale" ]; then
    scale=yes
    runs=runs/table_3_multi30k
    seeds="${SEEDS:-1 2 3}"
    jobs="${JOBS:-$(getconf _NPROCESSORS_ONLN)}"
    shift
fi
for row in ${ROWS:-}; do
    case " ${all_rows//$'\n'/ } " in
        *" $row "*) ;;
        *) echo "error: ROWS: there is no row '$row'; there are ${all_rows//$'\n'/ }." >&2; exit 2 ;;
    esac
done

gin_file_of() {
    if [ -n "$scale" ]; then echo "$runs/gin/$1.gin"; return; fi
    if [ -f "gin/ablations/$1.gin" ]; then echo "gin/ablations/$1.gin"; else echo "gin/$1.gin"; fi
}

# A row on the small base, its widths divided by four, its layers by two.
write_scaled() {
    local row="$1"
    {
        case "$row" in
            base_ende | big_ende) echo "include 'gin/table_3_multi30k.gin'" ;;
            *) sed "s|include 'gin/base_ende.gin'|include 'gin/table_3_multi30k.gin'|" "gin/ablations/$row.gin" ;;
        esac
        case "$row" in
            b_d_k_16) echo "LayerConfig.d_k = 4" ;;
            b_d_k_32) echo "LayerConfig.d_k = 8" ;;
            c_2_layers) echo "Transformer.num_layers = 1" ;;
            c_4_layers) echo "Transformer.num_layers = 2" ;;
            c_8_layers) echo "Transformer.num_layers = 4" ;;
            c_d_model_256) echo "d_model = 64" ;;
            c_d_model_1024) echo "d_model = 256" ;;
            c_d_ff_1024) echo "LayerConfig.d_ff = 256" ;;
            c_d_ff_4096) echo "LayerConfig.d_ff = 1024" ;;
            big_ende)
                echo "d_model = 256"
                echo "LayerConfig.d_ff = 1024"
                echo "LayerConfig.num_heads = 16"
                echo "LayerConfig.dropout = 0.3"
                echo "TrainingSchedule.steps = 7500"
                ;;
        esac
    } > "$runs/gin/$row.gin"
}

# Trains and evaluates one run, unless it has been evaluated: row, seed (- for none), trainer's arguments.
do_run() {
    local row="$1" seed="$2" folder="$runs/$1"
    shift 2
    if [ "$seed" != - ]; then
        folder="$folder/seed_$seed"
        set -- --gin_param="train.seed = $seed" "$@"
    fi
    if [ -f "$folder/model/scores/dev.json" ]; then return; fi
    mkdir -p "$folder"
    echo "== $folder"
    # All rows and seeds read the same data.
    python -m t2t_repro.trainer --gin_file="$(gin_file_of "$row")" --model_dir="$folder/model" \
        --data_dir="$runs/table_3_data" "$@" || return
    python -m t2t_repro.evaluate --model_dir="$folder/model" --data_dir="$runs/table_3_data" \
        --split=dev --checkpoint=latest
}

# A worker takes every jobs-th run, on a core of its own if there are several workers.
work() {
    local number="$1" n=0 row seed failed=0
    shift
    for seed in ${seeds:--}; do
        for row in ${ROWS:-$all_rows}; do
            if [ $((n++ % jobs)) -eq "$number" ]; then
                if [ "$jobs" -eq 1 ]; then
                    do_run "$row" "$seed" "$@" || failed=1
                else
                    do_run "$row" "$seed" "$@" >> "$runs/worker_$number.log" 2>&1 || failed=1
                fi
            fi
        done
    done
    return "$failed"
}

mkdir -p "$runs${scale:+/gin}"
if [ -n "$scale" ]; then for row in ${ROWS:-$all_rows}; do write_scaled "$row"; done; fi
# The first run prepares the data; the others wait for it.
python -m t2t_repro.datagen --gin_file="$(gin_file_of "$(set -- ${ROWS:-$all_rows}; echo "$1")")" --data_dir="$runs/table_3_data"
workers=""
for ((number = 0; number < jobs; number++)); do
    if [ "$jobs" -gt 1 ] && command -v taskset > /dev/null; then
        (taskset -cp "$((number % $(getconf _NPROCESSORS_ONLN)))" "$BASHPID" > /dev/null; work "$number" "$@") &
    else
        work "$number" "$@" &
    fi
    workers="$workers $!"
done
# A second signal would end a trainer without a checkpoint: Ctrl-C has reached all of them already.
trap 'trap "" INT TERM HUP; kill -TERM $workers; exit 130' INT
trap 'trap "" TERM; kill -TERM 0; exit 143' TERM HUP
failed=0
for worker in $workers; do wait "$worker" || failed=1; done
python paper/report.py --runs="$runs" --output="$runs/report" ${earlier:+--earlier="$earlier"}
exit "$failed"
