#!/usr/bin/env bash
# Distillation (Kim and Rush 2016, sequence level): a smaller, faster model, the student, learns the
# translations that a trained model, the teacher, makes of its training text. See docs/training.md.
#
#   bash scripts/distill.sh --teacher=runs/mine/model --source=train.en --dev=dev.en,dev.de --runs=runs/student
#
#   --teacher      its model directory
#   --source       the training text's source side; further lines in that language are welcome
#   --dev, --test  real pairs, such as dev.en,dev.de; scores are of the test set, or else of the dev set
#   --runs         where everything is kept
#   --gin_file     the student, without a corpus; by default the teacher's with two decoder layers
#
# All text is plain or compressed (.gz, .xz, .bz2). Interrupted or killed, the same command goes on from there.
set -euo pipefail
fail() { echo "error: $1" >&2; exit 2; }

teacher="" source="" dev="" test="" runs="" gin_file="" smaller="" two_vocabularies=""
for argument in "$@"; do
    flag="${argument%%=*}"
    case "$argument" in
        --help) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p;}' "$0"; exit ;;
        --teacher=* | --source=* | --dev=* | --test=* | --runs=* | --gin_file=*) printf -v "${flag#--}" %s "${argument#*=}" ;;
        *) fail "received the argument '$argument', expected flags such as --runs=runs/student: see --help." ;;
    esac
done
for flag in teacher source dev runs; do [ -n "${!flag}" ] || fail "--$flag is missing: see --help."; done
[[ "$*" != *[\'\"\\]* ]] || fail "an argument has a quote or a backslash in it, which would end a gin file's text: rename the file."
test="${test:-$dev}"
for flag in dev test; do
    [[ "${!flag}" =~ ^[^,]+,[^,]+$ ]] || fail "--$flag=${!flag}: expected two files, such as --$flag=$flag.en,$flag.de."
done
if [ -z "$gin_file" ]; then gin_file="$teacher/config.gin" smaller="Transformer.num_decoder_layers = 2"; fi
for path in "$teacher/model.json" "$gin_file" "$source" "${dev%,*}" "${dev#*,}" "${test%,*}" "${test#*,}"; do
    [ -f "$path" ] || fail "no file $path."
done
[ ! -f "$teacher/source_subwords.model" ] ||
    two_vocabularies=$'prepare.source_subwords = @source/ExistingSubwords()\nsource/ExistingSubwords.side = \'source\''
folder="$PWD"
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh" base
cd "$folder"
trap 'echo "interrupted: the same command goes on from here" >&2; exit 130' INT TERM

# 1. The student, from new weights. Pairs with an empty, an over-long or a cut-off translation will be
# dropped.
mkdir -p "$runs"
cat > "$runs/student.partial" <<END
include '$gin_file'
$smaller
train.init_from = None
train.init_checkpoint = None
TrainStep.frozen = ()
prepare.corpus = @TextFilesCorpus()
TextFilesCorpus.train = ('$source', '$runs/translations.txt')
TextFilesCorpus.dev = ('${dev%,*}', '${dev#*,}')
TextFilesCorpus.test = ('${test%,*}', '${test#*,}')
TextFilesCorpus.more_tests = None
$two_vocabularies
prepare.subwords = @target/ExistingSubwords()
ExistingSubwords.model_dir = '$teacher'
target/ExistingSubwords.side = 'target'
END
cmp -s "$runs/student.partial" "$runs/student.gin" || [ ! -e "$runs/student.gin" ] ||
    fail "$runs was begun with other arguments, see $runs/student.gin: give those, or another --runs."
# Mistakes in it are reported before hours of translation. There are no translations to count yet:
# the source's own lines, backwards, stand for them.
python - "$runs/student.partial" "$source" "$gin_file" <<'END'
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from t2t_repro import experiment
from t2t_repro.command_line.program import run
from t2t_repro.data.line_files import read_lines
from t2t_repro.errors import UserError

student, source, gin_file = sys.argv[1:]
del sys.argv[1:]

def main():
    with TemporaryDirectory() as folder:
        lines = Path(folder, "lines")
        lines.write_text("".join(f"{line[::-1]}\n" for line in read_lines(Path(source))))
        try:
            experiment.read(student, [f"TextFilesCorpus.train = ('{source}', '{lines}')"])
        except UserError as error:
            raise UserError(f"--gin_file={gin_file} is no student's: {error}") from error

run(main)
END
mv "$runs/student.partial" "$runs/student.gin"

# 2. The teacher's translations, as many lines as the source has.
echo "== the teacher translates ($runs/translations.txt)"
if [ ! -f "$runs/translations.txt" ]; then
    python -m t2t_repro.translate --model_dir="$teacher" --input="$source" --output="$runs/scored.txt" --scores
    # A fourth column marks what is cut off.
    awk -F '\t' '{ print (NF > 3 ? "" : $3) }' "$runs/scored.txt" > "$runs/translations.partial"
    mv "$runs/translations.partial" "$runs/translations.txt"
fi

# 3. Training.
echo "== training the student ($runs/student.gin)"
python -m t2t_repro.trainer --gin_file="$runs/student.gin" --model_dir="$runs/model" --data_dir="$runs/data"
kept="$(ls "$runs/model/checkpoints" | grep -c 'index$')"
python -m t2t_repro.average --model_dir="$runs/model" --last="$((kept < 5 ? kept : 5))"

# 4. Both models.
echo "== the test set"
python - "$teacher" "$runs/model" "${test%,*}" "${test#*,}" <<'END'
import pathlib, sys, time
from t2t_repro import load_translator
from t2t_repro.data.line_files import read_lines
from t2t_repro.evaluation.scores import bleu

sources, references = (list(read_lines(pathlib.Path(path))) for path in sys.argv[3:])
for name, model_dir in zip(("teacher", "student"), sys.argv[1:]):
    for beam in 4, 1:
        search = ["Translator.search = @BeamSearch()", f"BeamSearch.beam_size = {beam}"]
        translator = load_translator(model_dir, search)
        translator.translate(sources)  # Builds the graph.
        started = time.monotonic()
        translations = [found[0].text for found in translator.translate(sources)]
        speed = len(sources) / (time.monotonic() - started)
        score = bleu(translations, references, sources)
        print(f"{name}, beam {beam}: {score.name} {score.value:.2f}, {speed:.1f} sentences/s", flush=True)
END
