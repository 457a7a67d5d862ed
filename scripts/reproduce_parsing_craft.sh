#!/usr/bin/env bash
# Constituency parsing on CRAFT's treebank: labelled-bracket F1 on its 2,780 dev and 9,099 test trees.
#
#   bash scripts/reproduce_parsing_craft.sh --gin_param="TreebankCorpus.folder = '/path/to/trees'"
#
# docs/parsing.md says where train.tree.gz, dev.tree.gz and test.tree.gz come from. About two
# hours on one CPU core. Arguments go to the trainer. What the model answers on the test set
# is left as symbols in runs/parsing_craft/test.symbols.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh base
# The trainer ends well when it is interrupted, with a checkpoint; the rest must not follow.
trap 'echo "interrupted: the same command goes on from here" >&2; exit 130' INT TERM
python -m t2t_repro.trainer --gin_file=gin/parsing_craft.gin "$@"
python -m t2t_repro.average --model_dir=runs/parsing_craft/model --last=10
for split in dev test; do
    echo "== $split"
    python -m t2t_repro.evaluate --model_dir=runs/parsing_craft/model --split="$split" --output="runs/parsing_craft/$split.symbols"
done
