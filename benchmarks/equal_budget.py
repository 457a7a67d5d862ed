"""Trains the same model on the same text in several toolkits, and compares what they translate.

    python benchmarks/equal_budget.py --tfds=<data_dir>

WMT14 English→German as TensorFlow Datasets has it, or a part of it: `--tfds` is its folder; without
it, where `TfdsCorpus` looks. Or the corpus and subwords that a gin file binds, `--corpus`. One
joint BPE for all, learned by t2t_repro; the others read its pieces as words. The same updates, real
target tokens an update, dropout, schedule, label smoothing, mean of the last checkpoints and beam.
newstest2013 ("dev") and newstest2014 ("test") are translated, and scored by sacreBLEU: means over
the seeds that are done, and a paired bootstrap of every two toolkits.

Every step is done once: started again, it goes on where it was killed. Toolkits and seeds one at a
time, or side by side: `--toolkits=fairseq --seed=2`; what is compared are those that are done. Ours
is trained three times: with T2T's initialisation, with fairseq's, and with what else of
gin/small.gin is not in its text, subwords and budget.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from environments import DEFAULT_ENV_DIR, OURS, make_environment
from t2t_repro.data.line_files import read_lines
from t2t_repro.data.prepared import open_data
from t2t_repro.text.subword_model import FlatIds, SubwordModel
from t2t_repro.vocabulary import UNK_ID
from toolkits import fairseq_commands as fairseq
from toolkits import marian_commands as marian
from toolkits import our_commands as ours
from toolkits import over_seeds
from toolkits.recipe import Recipe
from toolkits.steps import Facts, end_with_its_children, hours, once, write_lines, write_text
from work import DEFAULT_DIRECTORY

RECIPE = Recipe(
    num_layers=3,
    d_model=256,
    d_ff=1024,
    num_heads=4,
    dropout=0.1,
    label_smoothing=0.1,
    learning_rate=0.001,
    warmup_steps=1000,
    adam_epsilon=1e-9,
    steps=6000,
    averaged=5,
    beam_size=4,
    length_penalty=0.6,
)
SAVE_EVERY = 300
"""Updates between two checkpoints, each with a dev evaluation."""

_SMALL = """
LayerConfig.initialization = 'fairseq'
InverseSquareRoot.peak = 0.0015
adam.clip_norm = 1.0
"""
"""Where gin/small.gin differs from the recipe, its text, subwords, precision and budget apart."""

_BINDINGS = {
    OURS: "",
    f"{OURS}@fairseq_initialization": "LayerConfig.initialization = 'fairseq'\n",
    f"{OURS}@small": _SMALL,
}
"""Of gin, behind the recipe's: what is trained with t2t_repro."""

TOKENS = {**dict.fromkeys(_BINDINGS, 2048), "fairseq": 2200, "marian": 1812}
"""Of a batch, as each toolkit counts them: 2,000 real target tokens on average in all."""

# With its usual multiple, 8, batches are smaller than they may be. No checkpoints at the ends of
# epochs.
_FAIRSEQ = f"""
    --max-tokens {TOKENS["fairseq"]} --clip-norm 0 --required-batch-size-multiple 1
    --save-interval 1000 --save-interval-updates {SAVE_EVERY}
    --validate-interval 1000 --validate-interval-updates {SAVE_EVERY}
""".split()

_LANGUAGES = ("en", "de")
_SCORED = ("dev", "test")

_CORPUS = """\
prepare.corpus = @TfdsCorpus()
TfdsCorpus.name = 'wmt14_translate/de-en'
TfdsCorpus.source_language = 'en'
TfdsCorpus.target_language = 'de'
SubwordTraining.vocab_size = 8000
"""


def main() -> None:
    """Does the steps that are not done yet, and prints what came out."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tfds", help="folder of prepared TFDS data sets; else TFDS's own")
    parser.add_argument("--corpus", type=Path, help="a gin file in the place of WMT14")
    parser.add_argument("--toolkits", default=",".join(TOKENS), help="which are run now")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--recipe", type=json.loads, default={}, help="changes of it, JSON; in a new run_dir"
    )
    parser.add_argument("--run_dir", type=Path, default=DEFAULT_DIRECTORY / "equal_budget")
    parser.add_argument("--env_dir", type=Path, default=DEFAULT_ENV_DIR)
    arguments = parser.parse_args()
    toolkits = arguments.toolkits.split(",")
    if not set(toolkits) <= _RUNS.keys():
        parser.error(f"--toolkits={arguments.toolkits}: expected some of {','.join(_RUNS)}")
    end_with_its_children()
    run_dir, recipe = arguments.run_dir.resolve(), RECIPE._replace(**arguments.recipe)
    prepare(run_dir, corpus_text(arguments.corpus, arguments.tfds))
    for toolkit in toolkits:
        python = make_environment(arguments.env_dir, toolkit.partition("@")[0])
        folder = run_dir / toolkit / f"seed_{arguments.seed}"
        found = _RUNS[toolkit](python, run_dir, folder, recipe, arguments.seed)
        line = json.dumps({"toolkit": toolkit, "seed": arguments.seed, **found})
        print(line, flush=True)
        write_text(folder / over_seeds.FACTS, line)
    for split in _SCORED:
        print("", *over_seeds.report(run_dir, split, [*TOKENS]), sep="\n", flush=True)


def corpus_text(gin_file: Path | None, tfds: str | None) -> str:
    """Returns gin text that binds the corpus and its subwords."""
    if gin_file:
        return gin_file.read_text(encoding="utf-8")
    return _CORPUS + (f"TfdsCorpus.data_dir = {str(Path(tfds).resolve())!r}\n" if tfds else "")


def prepare(run_dir: Path, corpus: str) -> None:
    """Has t2t_repro clean the corpus and learn subwords, and writes it as pieces for the others."""
    gin_file = run_dir / "corpus.gin"
    write_text(gin_file, corpus)
    options = [f"--gin_file={gin_file}", f"--data_dir={run_dir / 'data'}"]
    datagen = Path(sys.executable), "datagen", options, run_dir / "datagen.log"
    once(run_dir / "datagen.json", ours.run_verb, *datagen)
    once(run_dir / "pieces.json", write_pieces, run_dir)


def write_pieces(run_dir: Path) -> None:
    """Writes every split as pieces, what is scored as text, and Marian's vocabulary."""
    data, to = open_data(run_dir / "data"), run_dir / "pieces"
    pieces = data.subwords.target.pieces()
    for split in ("train", *_SCORED):
        store = data.store(split)
        # What t2t_repro itself trains on: without what was cleaned away.
        sides = store.sentences(np.arange(len(store)))
        for language, lines, side in zip(_LANGUAGES, data.text(split), sides, strict=True):
            write_lines(to / f"{split}.{language}", as_pieces(pieces, side))
            if split in _SCORED:
                write_lines(run_dir / f"{split}.{language}", lines)
    # Without PAD, EOS and UNK, the first three.
    write_lines(to / marian.VOCABULARY, marian.vocabulary(pieces[UNK_ID + 1 :]))


def as_pieces(pieces: Sequence[str], sentences: FlatIds) -> Iterator[str]:
    """Yields sentences as the names of their subwords with spaces between them, without EOS."""
    ids, lengths = sentences
    for sentence in np.split(ids, np.cumsum(lengths)[:-1]):
        yield " ".join(pieces[i] for i in sentence[:-1])


def as_text(subwords: SubwordModel, lines: Sequence[str]) -> list[str]:
    """Returns the sentences that `as_pieces` gives; what is no subword's name becomes UNK."""
    ids = {piece: i for i, piece in enumerate(subwords.pieces())}
    return [subwords.decode([ids.get(piece, UNK_ID) for piece in line.split()]) for line in lines]


def run_ours(
    python: Path, run_dir: Path, folder: Path, recipe: Recipe, seed: int, bindings: str
) -> Facts:
    """Trains, averages and translates with t2t_repro.

    Args:
        python: of its environment.
        run_dir: with the text.
        folder: where what is made is kept, the translations as `<split>.de`.
        recipe: of all toolkits.
        seed: of the training.
        bindings: of gin, behind the recipe's.

    Returns:
        what is known of the training.
    """
    gin_file, log = folder / "recipe.gin", folder / "train.log"
    text = (run_dir / "corpus.gin").read_text(encoding="utf-8")
    text += ours.gin_text(recipe, TOKENS[OURS], SAVE_EVERY) + bindings
    write_text(gin_file, text)
    model, data_dir = f"--model_dir={folder / 'model'}", run_dir / "data"
    training = [f"--gin_file={gin_file}", model, f"--data_dir={data_dir}"]
    training += [f"--gin_param=train.seed = {seed}"]
    once(folder / "trained.json", ours.run_verb, python, "trainer", training, log)
    averaging = [model, f"--last={recipe.averaged}"]
    average = ours.run_verb, python, "average", averaging, folder / "average.log"
    once(folder / "averaged.json", *average)
    for split in _SCORED:
        files = [f"--input={run_dir / split}.en", f"--output={folder / split}.de"]
        its_log = folder / f"translate_{split}.log"
        translate = ours.run_verb, python, "translate", [model, *files], its_log
        once(folder / f"{split}.json", *translate)
    store = open_data(data_dir).store("train")
    target = store.target_lengths.sum()
    share = target / (target + store.source_lengths.sum())
    return {**ours.training_facts(log.read_text(encoding="utf-8"), share), **hours(log)}


def run_marian(python: Path, run_dir: Path, folder: Path, recipe: Recipe, seed: int) -> Facts:
    """The same with Marian, see `run_ours`."""
    pieces, model, average = run_dir / "pieces", folder / "model", folder / "average.npz"
    options = marian.training_options(recipe, TOKENS["marian"], SAVE_EVERY)
    texts = {"train": pieces / "train", "valid": pieces / "dev"}
    training = python, texts, model, [*options, f"--seed={seed}"]
    trained = once(folder / "trained.json", marian.train, *training)
    once(folder / "averaged.json", marian.average, model, recipe.averaged, average)
    for split in _SCORED:
        files = average, pieces / marian.VOCABULARY, pieces / f"{split}.en"
        to = folder / f"{split}.pieces"
        once(folder / f"{split}.json", marian.translate, python, recipe, *files, to)
        _write_text(run_dir, list(read_lines(to)), folder / f"{split}.de")
    return {**trained, **hours(model / "train.log")}


def run_fairseq(python: Path, run_dir: Path, folder: Path, recipe: Recipe, seed: int) -> Facts:
    """The same with fairseq, see `run_ours`."""
    pieces, model, data = run_dir / "pieces", folder / "model", run_dir / "pieces" / "fairseq"
    prefixes = {"train": pieces / "train", "valid": pieces / "dev", "test": pieces / "test"}
    once(pieces / "fairseq.json", fairseq.preprocess, python, prefixes, _LANGUAGES, data)
    options = [*fairseq.training_options(recipe), *_FAIRSEQ]
    options += ["--keep-interval-updates", str(recipe.averaged)]
    trained = once(folder / "trained.json", fairseq.train, python, data, model, options, seed)
    average = folder / "average.pt"
    once(folder / "averaged.json", fairseq.average, python, model, recipe.averaged, average)
    search = fairseq.search_options(recipe)
    for split, its_name in zip(_SCORED, ("valid", "test"), strict=True):
        translate = fairseq.translate, python, data, average, its_name, search
        found = once(folder / f"{split}.json", *translate)
        _write_text(run_dir, found["translations"], folder / f"{split}.de")
    return {**trained, **hours(model / "train.log")}


_RUNS: dict[str, Callable[[Path, Path, Path, Recipe, int], Facts]] = {
    **{one: partial(run_ours, bindings=text) for one, text in _BINDINGS.items()},
    "fairseq": run_fairseq,
    "marian": run_marian,
}


def _write_text(run_dir: Path, pieces: Sequence[str], to: Path) -> None:
    write_lines(to, as_text(open_data(run_dir / "data").subwords.target, pieces))


if __name__ == "__main__":
    main()
