"""Parses sentences: `python -m t2t_repro.parse --model_dir=... < sentences.txt > trees.txt`.

For models that were trained on a treebank. A line holds a sentence, its words separated by spaces
as in the treebank; its output line is a bracketed tree with these words. It is (()), with a
warning, if the model's answer is not a tree of as many words. Round brackets become -LRB- and
-RRB-.
"""

from absl import logging
from absl.flags import FLAGS

from t2t_repro.command_line import flags as shared
from t2t_repro.command_line.program import run
from t2t_repro.command_line.text_lines import check_output, read_input, write_output
from t2t_repro.parsing.trees import NO_TREE, tree_of, words_of


def main() -> None:
    """Parses --input with the model of --model_dir, and writes the trees.

    Logs a warning for each line of which the model makes no tree.
    """
    check_output()
    sentences = [words_of(line) for line in read_input(FLAGS.input)]
    translator = shared.load_translator(shared.find_checkpoint())
    answers = translator.translate([" ".join(words) for words in sentences])
    trees = [tree_of(words, best.text) for words, (best,) in zip(sentences, answers, strict=True)]
    for number, tree in enumerate(trees, start=1):
        if tree == NO_TREE:
            logging.warning("line %d: not a tree of its words", number)
    write_output(trees, FLAGS.output)


def cli() -> None:
    """Defines the flags, reads the command line, and parses the input's sentences."""
    shared.define_trained_model()
    shared.define_path("input", "A text file; standard input by default.")
    shared.define_path("output", "A text file; standard output by default.")
    run(main)


if __name__ == "__main__":
    cli()
