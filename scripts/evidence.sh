#!/usr/bin/env bash
# Every figure on quality in EXPERIMENTS.md, again, from nothing. Without a name it says what there is:
#
#   bash scripts/evidence.sh
#   bash scripts/evidence.sh multi30k [--multi30k=DIR] [--tfds=DIR] [--craft=DIR]
#
# Each part can be interrupted or killed, and goes on where it stopped; what is done is left alone.
# Parts may run side by side, a core each: taskset -c 1 bash scripts/evidence.sh parsing.
set -euo pipefail
here="$PWD"
cd "$(dirname "${BASH_SOURCE[0]}")/.."

list() {
    cat << 'END'
part       hours of one core   what it makes
multi30k   5                   Multi30k en→de in t2t_repro, three seeds: runs/multi30k_tiny
fairseq    9                   the same in fairseq, three seeds: runs/fairseq
news       5                   t2t_repro, OpenNMT-tf and fairseq on the same news text: runs/news
table_3    11 (two at a time)  Table 3 in small, 20 rows of three seeds: runs/table_3_multi30k
parsing    2                   constituency parsing on CRAFT's trees: runs/parsing_craft
curves     0                   pictures of what there is, in docs/curves
all        32                  one after the other

--multi30k=DIR   a copy of the Multi30k repository; downloaded without it
--tfds=DIR       TensorFlow Datasets' folder, with wmt14_translate/de-en in it; its own without it
--craft=DIR      CRAFT's three files of trees, made as docs/parsing.md says; "trees" without it
END
}

fail() {
    echo "error: $*" >&2
    exit 2
}

part="${1:-}"
if [ -z "$part" ]; then
    list
    exit 0
fi
shift
multi30k="" tfds="" craft=""
for argument in "$@"; do
    case "$argument" in
        --multi30k=?*) multi30k="${argument#*=}" ;;
        --tfds=?*) tfds="${argument#*=}" ;;
        --craft=?*) craft="${argument#*=}" ;;
        *) fail "'$argument' is none of --multi30k=DIR, --tfds=DIR and --craft=DIR." ;;
    esac
done
for given in multi30k tfds craft; do
    folder="${!given}"
    if [ -z "$folder" ]; then continue; fi
    if [ "${folder#/}" = "$folder" ]; then folder="$here/$folder"; fi
    [ -d "$folder" ] || fail "--$given: there is no folder $folder."
    [[ "$folder" != *[\'\"\\]* ]] || fail "--$given: $folder has a quote or a backslash in it, which would end a gin file's text: rename it."
    printf -v "$given" %s "$folder"
done
case "$part" in
    # Three seeds would be trained, and then not be reported.
    multi30k | all) [ ! -e runs/multi30k_tiny/model ] || fail "runs/multi30k_tiny/model is a run by itself, beside the seeds that are trained there: move it to another folder." ;;
esac
trap 'echo "interrupted: the same command goes on from here" >&2; exit 130' INT TERM

# The arguments of a trainer that name a folder.
of_multi30k=() of_craft=()
if [ -n "$multi30k" ]; then of_multi30k=(--gin_param="Multi30kCorpus.local_dir = '$multi30k'"); fi
if [ -n "$craft" ]; then of_craft=(--gin_param="TreebankCorpus.folder = '$craft'"); fi

do_part() {
    case "$1" in
        multi30k)
            bash scripts/reproduce_multi30k.sh ${of_multi30k[@]+"${of_multi30k[@]}"}
            .venv/bin/python -m t2t_repro.report --table=scores --runs=runs/multi30k_tiny
            ;;
        fairseq)
            source scripts/environment.sh base
            for seed in 1 2 3; do
                python benchmarks/multi30k_fairseq.py --seed="$seed" --run_dir=runs/fairseq \
                    --output=runs/fairseq/scores.jsonl ${multi30k:+--multi30k="$multi30k"}
            done
            ;;
        news)
            source scripts/environment.sh base
            python benchmarks/equal_budget.py --run_dir=runs/news --output=runs/news/scores.jsonl \
                ${tfds:+--tfds="$tfds"}
            ;;
        table_3) bash scripts/reproduce_table3.sh --scale ${of_multi30k[@]+"${of_multi30k[@]}"} ;;
        parsing) bash scripts/reproduce_parsing_craft.sh ${of_craft[@]+"${of_craft[@]}"} ;;
        curves)
            source scripts/environment.sh plots
            draw_curves
            ;;
        *) fail "there is no part '$1'; bash scripts/evidence.sh says what there is." ;;
    esac
}

# A picture of each part that has been begun; one that has no points yet keeps no other from its own.
draw_curves() {
    local row run toolkit of_rows=() of_news=() status=0
    mkdir -p docs/curves
    if [ -d runs/multi30k_tiny ]; then
        local theirs=(runs/fairseq/seed_*/train.log)
        if [ -f "${theirs[0]}" ]; then theirs=(--runs fairseq "${theirs[@]}"); else theirs=(); fi
        python scripts/draw_curves.py --output=docs/curves/multi30k.png --by updates hours \
            --charts train/nll dev/nll dev/tokenised_lower_cased_bleu \
            --runs t2t_repro runs/multi30k_tiny/seed_*/model ${theirs[@]+"${theirs[@]}"} || status=$?
    fi
    for run in ours/seed_1/model ours@fairseq_initialization/seed_1/model \
        opennmt_tf/seed_1/curves.jsonl fairseq/seed_1/model/train.log; do
        toolkit="${run%%/*}"
        toolkit="${toolkit/ours/t2t_repro}"
        toolkit="${toolkit/@fairseq_initialization/, initialised as fairseq}"
        if [ -e "runs/news/$run" ]; then of_news+=(--runs "$toolkit" "runs/news/$run"); fi
    done
    if [ "${#of_news[@]}" -gt 0 ]; then
        python scripts/draw_curves.py --output=docs/curves/news.png --by updates hours \
            --charts dev/nll "${of_news[@]}" || status=$?
    fi
    for row in base_ende a_1_head c_8_layers c_d_model_1024 d_dropout_0_0 big_ende; do
        local models=(runs/table_3_multi30k/"$row"/seed_*/model)
        if [ -d "${models[0]}" ]; then of_rows+=(--runs "$row" "${models[@]}"); fi
    done
    if [ "${#of_rows[@]}" -gt 0 ]; then
        python scripts/draw_curves.py --output=docs/curves/table_3.png --by updates hours \
            --charts train/nll dev/nll train/learning_rate "${of_rows[@]}" || status=$?
    fi
    if [ -d runs/parsing_craft ]; then
        python scripts/draw_curves.py --output=docs/curves/parsing_craft.png --by updates hours \
            --charts train/nll dev/strict_bracket_f1 train/learning_rate \
            --runs t2t_repro runs/parsing_craft/model || status=$?
    fi
    return "$status"
}

if [ "$part" = all ]; then
    for one in multi30k fairseq news table_3 parsing curves; do do_part "$one"; done
else
    do_part "$part"
fi
