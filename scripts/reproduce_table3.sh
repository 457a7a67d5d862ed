#!/usr/bin/env bash
# Every row of the paper's Table 3: trained, evaluated on the dev set (the last checkpoint, none
# averaged: section 6.2), and put beside the published figures.
#
#   bash scripts/reproduce_table3.sh [--scale] [arguments of the trainer]
#
# Whole, a row took the paper 12 hours on eight P100 GPUs (the last one 3.5 days). --scale takes
# Multi30k in place of WMT14, models of a quarter of the widths and half the layers, and three seeds
# a row, two runs at a time, a core each: about 11 hours of a core in all.
# Interrupted or killed, it goes on where it stopped: what has been evaluated is left alone.
#
#   ROWS="base_ende a_1_head"   these rows only
#   SEEDS="1 2 3"               of each row, in runs/<row>/seed_<n>; without it one run, in runs/<row>
#   JOBS=2                      runs at a time; each then says what it does in a file of its own
#   EARLIER=table_3.csv         of another machine, or of before: its runs are left alone, and count
#
# Arguments go to the trainer, e.g. --gin_param="Multi30kCorpus.local_dir = 'path/to/a/copy'".
set -euo pipefail

fail() { echo "error: $1" >&2; exit 2; }

earlier="${EARLIER:-}"
if [ -n "$earlier" ]; then
    [ -f "$earlier" ] || fail "EARLIER: there is no file $earlier."
    case "$earlier" in /*) ;; *) earlier="$PWD/$earlier" ;; esac
fi
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
cores="$(getconf _NPROCESSORS_ONLN)"
if [ "${1:-}" = "--scale" ]; then
    scale=yes
    runs=runs/table_3_multi30k
    seeds="${SEEDS:-1 2 3}"
    jobs="${JOBS:-$((cores < 2 ? 1 : 2))}"
    shift
fi
data="$runs/table_3_data"
[[ "$jobs" =~ ^[1-9][0-9]*$ ]] || fail "JOBS=$jobs: expected a number from 1 on."
for seed in $seeds; do
    [[ "$seed" =~ ^[0-9]+$ ]] || fail "SEEDS=$seeds: expected numbers with spaces between them."
done
for row in ${ROWS:-}; do
    [[ " ${all_rows//$'\n'/ } " == *" $row "* ]] || fail "ROWS: there is no row '$row'; there are ${all_rows//$'\n'/ }."
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

# What a row of --scale costs beside base, in tenths: roughly, for what is left.
cost_of() {
    case "$1" in
        c_d_model_1024) echo 22 ;;
        big_ende) echo 75 ;;
        *) echo 10 ;;
    esac
}

# The runs, in order: "row seed folder" a line. All rows of a seed come before those of the next.
all_runs() {
    local row seed
    for seed in ${seeds:--}; do
        for row in ${ROWS:-$all_rows}; do
            if [ "$seed" = - ]; then echo "$row - $runs/$row"; else echo "$row $seed $runs/$row/seed_$seed"; fi
        done
    done
}

# By row, seed and folder: whether a run has been evaluated, here or in $EARLIER.
is_done() {
    [ -f "$3/model/scores/dev.json" ] || is_earlier "$1" "$2"
}

is_earlier() {
    local seed="seed_$2"
    if [ "$2" = - ]; then seed=model; fi
    [ -n "$earlier" ] && awk -F, -v row="$1" -v seed="$seed" '
        $2 == row && $7 == seed && $9 { found = 1 }
        END { exit !found }' "$earlier"
}

# How many runs are left, and by the seconds of those that this machine has done, how long they take.
what_is_left() {
    local row seed folder left=0 cost=0
    while read -r row seed folder; do
        if ! is_done "$row" "$seed" "$folder"; then
            left=$((left + 1))
            cost=$((cost + $(cost_of "$row")))
        fi
    done < <(all_runs)
    awk -v left="$left" -v cost="$cost" -v jobs="$jobs" '
        { seconds += $2; done += $3 }
        END {
            if (done) about = sprintf(", about %.1f hours", cost * seconds / done / jobs / 3600)
            printf "%d runs to do%s\n", left, about
        }' "$runs/seconds"
}

train_and_evaluate() {
    local row="$1" seed="$2" folder="$3" gin_file
    shift 3
    gin_file="$(gin_file_of "$row")"
    if [ "$seed" != - ]; then set -- --gin_param="train.seed = $seed" "$@"; fi
    # All rows and seeds read the same data.
    $pinned python -m t2t_repro.trainer --gin_file="$gin_file" --model_dir="$folder/model" \
        --data_dir="$data" "$@" &
    wait $! || return 1
    $pinned python -m t2t_repro.evaluate --model_dir="$folder/model" --data_dir="$data" \
        --split=dev --checkpoint=latest &
    wait $!
}

do_run() {
    if [ "$jobs" -eq 1 ]; then
        train_and_evaluate "$@"
    elif ! train_and_evaluate "$@" >> "$3/log" 2>&1; then
        echo "$3 failed: its file log says why" >&2
        return 1
    fi
}

# One of several workers: takes a run that is not done and that no other has taken, until there is none.
work() {
    local number="$1" row seed folder began whole pinned=""
    shift
    # Ctrl-C, or a terminal that closes, is told to all processes there. What runs here is asked to end
    # once, by the worker: so the worker heeds neither, and its programs are in groups of their own.
    trap '' INT HUP
    set -m
    # The trainer ends well when it is asked to, with a checkpoint; other runs must not follow.
    trap 'trap "" TERM; kill -TERM $(jobs -p) 2>/dev/null; wait; exit 143' TERM
    # Two runs on two cores get in each other's way where each takes both.
    if [ "$jobs" -gt 1 ]; then pinned="taskset -c $((number % cores))"; fi
    $pinned true 2> /dev/null || pinned=""
    while read -r row seed folder; do
        if is_done "$row" "$seed" "$folder" || ! mkdir "$runs/taken/$row.$seed" 2>/dev/null; then continue; fi
        echo "== $folder: $(what_is_left)"
        # The rest of a run that was killed says nothing of how long one takes.
        whole=""
        if [ ! -e "$folder/model" ]; then whole=yes; fi
        mkdir -p "$folder"
        began=$SECONDS
        if do_run "$row" "$seed" "$folder" "$@" && [ -n "$whole" ]; then
            echo "$folder $((SECONDS - began)) $(cost_of "$row")" >> "$runs/seconds"
        fi
    done < <(all_runs)
}

# One at a time: the link names who is at work, and only one of several can make it.
take_runs() {
    local by mine="$runs/at_work.$$"
    until ln -s $$ "$runs/at_work" 2> /dev/null; do
        by="$(readlink "$runs/at_work")" || continue
        if kill -0 "$by" 2> /dev/null; then
            fail "process $by is at work in $runs: wait for it, or end it first (if it is another program, delete $runs/at_work)."
        fi
        # Of one that was killed; unless another that starts now was faster to see that.
        mv "$runs/at_work" "$mine" 2> /dev/null || continue
        if [ "$(readlink "$mine")" = "$by" ]; then rm "$mine"; else mv "$mine" "$runs/at_work"; fi
    done
}

mkdir -p "$runs${scale:+/gin}"
take_runs
touch "$runs/seconds"
if [ -n "$scale" ]; then for row in ${ROWS:-$all_rows}; do write_scaled "$row"; done; fi
rm -rf "$runs/taken"
mkdir "$runs/taken"
workers=""
trap 'trap "" INT TERM HUP; kill -TERM $workers 2> /dev/null || :; wait; rm -f "$runs/at_work"; echo "interrupted: the same command goes on from here" >&2; exit 130' INT TERM HUP
for ((number = 0; number < jobs; number++)); do
    work "$number" "$@" &
    workers="$workers $!"
done
wait
rm -rf "$runs/taken" "$runs/at_work"
python -m t2t_repro.report --runs="$runs" --output="$runs/report" ${earlier:+--earlier="$earlier"}
if ! all_runs | while read -r run; do is_done $run || exit 1; done; then
    echo "error: $(what_is_left); the same command tries them again" >&2
    exit 1
fi
