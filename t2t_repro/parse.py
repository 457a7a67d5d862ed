"""Parses sentences: `python -m t2t_repro.parse --model_dir=... < sentences.txt > trees.txt`.

For models that were trained on a treebank. A sentence a line, its words and punctuation separated
by spaces as in the treebank; a bracketed tree a line comes out, with these words in it. Where the
model's answer is no tree, or one of another number of words, the line is (()), as parsers
customarily have it, and a warning says so. Round brackets become -LRB- and -RRB-.
"""

from collections.abc import Iterator

from absl import flags, logging

from t2t_repro.command_line.flags import (
    define_trained_model,
    find_checkpoint,
    load_translator,
)
from t2t_repro.command_line.path_flags import define_path
from t2t_repro.command_line.program import run
from t2t_repro.command_line.text_lines import read_input, write_output

FLAGS = flags.FLAGS

NO_TREE = "(())"


def main() -> None:
    """Runs the parser on its flags."""
    lines = read_input(FLAGS.input)
    translator = load_translator(find_checkpoint())
    sentences = [words_of(line) for line in lines]

    def parsed() -> Iterator[str]:
        constituents = 0
        answers = translator.translate([" ".join(words) for words in sentences])
        for number, (words, found) in enumerate(zip(sentences, answers, strict=True), start=1):
            tree = tree_of(words, found[0].text)
            if tree == NO_TREE:
                logging.warning("line %d: no tree of %d words", number, len(words))
            constituents += has_constituents(found[0].text)
            yield tree
        if any(sentences) and not constituents:
            logging.warning(
                "no answer closes a constituent, as linearised trees do: the model was hardly "
                "trained on a treebank (see gin/parsing_wsj.gin); python -m t2t_repro.translate "
                "shows its answers as they are"
            )

    write_output(parsed(), FLAGS.output)


def words_of(line: str) -> tuple[str, ...]:
    """The words of a sentence, none with a round bracket in it; spaces are as in `trees`."""
    from t2t_repro.parsing.trees import SPACES

    words = SPACES.split(line.replace("(", "-LRB-").replace(")", "-RRB-"))
    return tuple(word for word in words if word)


def has_constituents(symbols: str) -> bool:
    """Whether an answer closes a constituent; a row of tags alone is what any text looks like."""
    from t2t_repro.parsing.linear_trees import CLOSE

    return any(symbol.startswith(CLOSE) for symbol in symbols.split())


def tree_of(words: tuple[str, ...], symbols: str) -> str:
    """The bracketed tree of a sentence.

    Args:
        words: of the sentence.
        symbols: a linearised tree, as a model wrote it.

    Returns:
        The tree with the words in it, or NO_TREE where the two do not fit.
    """
    from t2t_repro.parsing.linear_trees import delinearise
    from t2t_repro.parsing.trees import ParsedSentence, bracketed

    try:
        tree = delinearise(symbols)
    except ValueError:
        return NO_TREE
    # A model can write whatever has a subword, bytes among them.
    fits = words and len(tree.tags) == len(words) and not set(symbols) & set("()\r\n")
    return bracketed(ParsedSentence(words, tree)) if fits else NO_TREE


def cli() -> None:
    """Defines the flags, reads the command line, and parses."""
    define_trained_model()
    define_path("input", None, "A text file; standard input by default.")
    define_path("output", None, "A text file; standard output by default.")
    run(main)


if __name__ == "__main__":
    cli()
