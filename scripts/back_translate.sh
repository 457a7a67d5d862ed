#!/usr/bin/env bash
# Back-translation (Sennrich et al. 2016): from parallel text, and text in the target language alone,
# to a better model. See docs/back_translation.md.
#
#   bash scripts/back_translate.sh --gin_file=gin/base.gin --train=a.en,a.de --dev=dev.en,dev.de \
#       --monolingual=more.de --runs=runs/back_translation
#
#   --gin_file       model and training, without a corpus, for both directions
#   --train, --dev   parallel text: the file of the source, a comma, that of the target
#   --test           likewise; in the end the model is scored on it, or on the dev set
#   --monolingual    text in the target language, a sentence a line
#   --runs           where everything is kept
#   --method         beam, sampling, or noise (beam search, noised as by Edunov et al. 2018)
#   --reverse_model  the model directory of a model from target to source; otherwise one is trained
#   --init_from      the model directory of a model from source to target, to go on from it
#   --weights        3:1 has three real sentences for one translated back; by default all once
#   --tag            in front of every source that is translated back; <BT> by default
#
# All text is plain or compressed (.gz, .xz, .bz2). Interrupted or killed, the same command goes on from there.
set -euo pipefail

fail() { echo "error: $1" >&2; exit 2; }
# What the user wrote is relative to where the user is.
absolute() { case "$1" in "" | /*) echo "$1" ;; *) echo "$PWD/$1" ;; esac; }

# 1. The arguments.
gin_file="" train="" dev="" test="" monolingual="" runs="" reverse_model="" init_from="" weights=""
method=beam
tag="<BT>"
for argument in "$@"; do
    value="${argument#*=}"
    case "$argument" in
        --help) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p;}' "$0"; exit ;;
        --gin_file=*) gin_file="$value" ;;
        --train=*) train="$value" ;;
        --dev=*) dev="$value" ;;
        --test=*) test="$value" ;;
        --monolingual=*) monolingual="$value" ;;
        --runs=*) runs="$value" ;;
        --method=*) method="$value" ;;
        --reverse_model=*) reverse_model="$value" ;;
        --init_from=*) init_from="$value" ;;
        --weights=*) weights="$value" ;;
        --tag=*) tag="$value" ;;
        *) fail "received the argument '$argument', expected flags such as --train=a.en,a.de: see --help." ;;
    esac
done
for flag in gin_file train dev monolingual runs; do
    [ -n "${!flag}" ] || fail "--$flag is missing: see --help."
done
case "$method" in
    beam | sampling | noise) ;;
    *) fail "--method=$method: expected beam, sampling or noise." ;;
esac
[[ -z "$weights" || "$weights" =~ ^[0-9.]+:[0-9.]+$ ]] || fail "--weights=$weights: expected real:back, such as 3:1."
# Paths are made absolute, with the folder that one is in.
[[ "$PWD $*" != *[\'\"\\]* ]] || fail "an argument, or the folder $PWD, has a quote or a backslash in it, which would end a gin file's text: rename the file."

# The pair of a flag, as gin has it: ('/here/a.en', '/here/a.de'), the second one first for "reversed".
pair_of() {
    local first="${!1%%,*}" second="${!1#*,}"
    [[ "${!1}" == *,* && -n "$first" && -n "$second" && "$second" != *,* ]] \
        || fail "--$1=${!1}: expected two files, such as --$1=$1.en,$1.de."
    first="$(absolute "$first")" second="$(absolute "$second")"
    for path in "$first" "$second"; do [ -f "$path" ] || fail "--$1: no file $path."; done
    if [ "${2:-}" = reversed ]; then echo "('$second', '$first')"; else echo "('$first', '$second')"; fi
}
train_pair="$(pair_of train)"
train_reversed="$(pair_of train reversed)"
dev_pair="$(pair_of dev)"
dev_reversed="$(pair_of dev reversed)"
test_pair=None
if [ -n "$test" ]; then test_pair="$(pair_of test)"; fi
for flag in gin_file monolingual reverse_model init_from runs; do
    printf -v "$flag" %s "$(absolute "${!flag}")"
done
for path in "$gin_file" "$monolingual"; do [ -f "$path" ] || fail "no file $path."; done
for path in "$reverse_model" "$init_from"; do
    [[ -z "$path" || -f "$path/model.json" ]] || fail "$path is no model directory: model.json is missing."
done

folder="$PWD"
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh" base
# What the gin file names is relative to where the user is, too.
cd "$folder"
trap 'echo "interrupted: the same command goes on from here" >&2; exit 130' INT TERM

mkdir -p "$runs"
# What is there was made with these arguments, or is not what is wanted.
arguments="$(printf '%s\n' "$gin_file" "$train_pair" "$dev_pair" "$test_pair" "$monolingual" "$method" "$reverse_model" "$init_from" "$weights" "$tag")"
if [ ! -f "$runs/arguments" ]; then
    # Whole or not at all: killed in between, it would be refused ever after.
    echo "$arguments" > "$runs/arguments.partial"
    mv "$runs/arguments.partial" "$runs/arguments"
fi
[ "$arguments" = "$(cat "$runs/arguments")" ] || fail "$runs was begun with other arguments, see $runs/arguments: give those, or another --runs."

# 2. What the model from source to target, of both corpora, is trained with. Mistakes in it are reported before hours of
# work. There is no text that was translated back to count yet: the parallel text stands for it.
back="$runs/back.txt"
{
    echo "include '$gin_file'"
    echo "prepare.corpus = @Mixture()"
    if [ "$method" = noise ]; then
        echo "import noised_source"
        echo "Mixture.corpora = {'real': @real/TextFilesCorpus(), 'back': @NoisedSource()}"
        echo "NoisedSource.corpus = @back/TextFilesCorpus()"
    else
        echo "Mixture.corpora = {'real': @real/TextFilesCorpus(), 'back': @back/TextFilesCorpus()}"
    fi
    if [ -n "$tag" ]; then echo "Mixture.tags = {'back': '$tag'}"; fi
    if [ -n "$weights" ]; then echo "Mixture.weights = {'real': ${weights%:*}, 'back': ${weights#*:}}"; fi
    echo "real/TextFilesCorpus.train = $train_pair"
    echo "real/TextFilesCorpus.dev = $dev_pair"
    echo "real/TextFilesCorpus.test = $test_pair"
    echo "back/TextFilesCorpus.train = ('$back', '$monolingual')"
    subwords=SubwordTraining
    if [ -n "$init_from" ]; then
        subwords=ExistingSubwords
        echo "train.init_from = '$init_from'"
        echo "prepare.subwords = @ExistingSubwords()"
        echo "ExistingSubwords.model_dir = '$init_from'"
        if [ -f "$init_from/source_subwords.model" ]; then
            printf '%s\n' "prepare.subwords = @target/ExistingSubwords()" "target/ExistingSubwords.side = 'target'" \
                "prepare.source_subwords = @source/ExistingSubwords()" "source/ExistingSubwords.side = 'source'"
        fi
    fi
    # The noise's filler is one subword.
    if [ "$method" = noise ]; then echo "$subwords.symbols = ['<BLANK>']"; fi
} > "$runs/forward.gin"
python - "$runs/forward.gin" "back/TextFilesCorpus.train = $train_pair" <<'END'
import sys
from t2t_repro import experiment
from t2t_repro.command_line.program import run

def main():
    for recipe in experiment.read(gin_file, [stand_in]).preparation.recipes:
        recipe.describe()  # Adds the symbols.

_, gin_file, stand_in = sys.argv
del sys.argv[1:]
run(main)
END

# 3. A model from target to source.
if [ -z "$reverse_model" ]; then
    reverse_model="$runs/reverse/model"
    cat > "$runs/reverse.gin" <<END
include '$gin_file'
prepare.corpus = @TextFilesCorpus()
TextFilesCorpus.train = $train_reversed
TextFilesCorpus.dev = $dev_reversed
END
    echo "== training from target to source ($runs/reverse.gin)"
    python -m t2t_repro.trainer --gin_file="$runs/reverse.gin" --model_dir="$reverse_model" \
        --data_dir="$runs/reverse/data"
fi

# 4. Sources for the monolingual text.
search=(--gin_param="Translator.search = @BeamSearch()")
if [ "$method" = sampling ]; then search=(--gin_param="Translator.search = @Sampling()"); fi
if [ ! -f "$back" ]; then
    echo "== translating back ($back)"
    python -m t2t_repro.translate --model_dir="$reverse_model" --input="$monolingual" \
        --output="$back" "${search[@]}"
fi

# 5. The model from source to target.
echo "== training from source to target ($runs/forward.gin)"
python -m t2t_repro.trainer --gin_file="$runs/forward.gin" --model_dir="$runs/forward/model" \
    --data_dir="$runs/forward/data"

# 6. What it gives.
split=dev
if [ -n "$test" ]; then split=test; fi
echo "== evaluating on the $split set"
python -m t2t_repro.evaluate --model_dir="$runs/forward/model" --data_dir="$runs/forward/data" \
    --split="$split"
echo "== now your own: python -m t2t_repro.translate --model_dir=$runs/forward/model"
