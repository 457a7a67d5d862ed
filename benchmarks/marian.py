"""Trains a small model with Marian, imports it, and compares scores and translations line by line.

    bash scripts/multi30k.sh
    python benchmarks/marian.py --vocabulary=joint --encoder_layers=3 --decoder_layers=3

Marian (pymarian, in an environment of its own) makes the vocabulary, trains on Multi30k on one
thread, scores the references of a test set, and translates it: greedily, and with n-best lists.
Prints a table, then the lines whose lists differ. What Marian did is kept in --run_dir.
"""

import argparse
import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from environments import DEFAULT_ENV_DIR, make_environment
from t2t_repro.data.line_files import read_lines
from t2t_repro.decoding.loading import load_translator
from t2t_repro.decoding.search import Translation
from t2t_repro.decoding.settings import MarianSearch
from t2t_repro.decoding.translator import Translator
from toolkits.our_commands import run_verb
from toolkits.steps import call, once, write_lines
from work import DEFAULT_DIRECTORY

_BEAM_SIZE = 4
_NORMALIZE = (0.6, 1.0)
_SPM = ["--dim-vocabs", "2000", "2000", "--sentencepiece-options=--num_threads=1"]
_VOCABULARIES = {
    "joint": ("vocab.spm", "vocab.spm", ["--tied-embeddings-all", *_SPM]),
    "two": ("source.spm", "target.spm", ["--tied-embeddings", *_SPM]),
    "words": ("source.yml", "target.yml", ["--tied-embeddings"]),
}
"""Files of source and target, and what else Marian is told."""

_TRAINING = """
    --type transformer --transformer-heads 4 --transformer-dropout 0.1 --label-smoothing 0.1
    --mini-batch 64 --maxi-batch 20 --max-length 60 --cost-type ce-mean-words --clip-norm 1
    --learn-rate 0.003 --lr-warmup 100 --lr-decay-inv-sqrt 300 --optimizer-params 0.9 0.98 1e-09
    --exponential-smoothing 0.01 --beam-size 4 --normalize 1 --seed 1111 --data-threads 1
    --workspace 400 --disp-freq 100 --relative-paths --overwrite
""".split()  # noqa: SIM905 (a command line)
_ALONE = ["--cpu-threads", "1", "--workspace", "200", "--mini-batch", "1", "--maxi-batch", "1"]
"""A sentence at a time: Marian's limit of a translation depends on the batch."""


def main() -> None:
    """Trains, imports, compares."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--vocabulary", choices=_VOCABULARIES, default="joint")
    add("--encoder_layers", type=int, default=3)
    add("--decoder_layers", type=int, default=3)
    add("--d_model", type=int, default=64, help="the feed-forward network is twice as wide")
    add("--updates", type=int, default=400)
    add("--test", default="test_2016_flickr")
    add("--multi30k", type=Path, default=Path("runs/multi30k"))
    add("--run_dir", type=Path, default=DEFAULT_DIRECTORY / "marian")
    add("--env_dir", type=Path, default=DEFAULT_ENV_DIR)
    options = parser.parse_args()
    layers = f"{options.encoder_layers}_{options.decoder_layers}"
    name = f"{options.vocabulary}_{layers}_{options.d_model}_{options.updates}"
    run_dir = options.run_dir.resolve() / name
    python = make_environment(options.env_dir, "marian")
    write_text(options, run_dir)
    once(run_dir / "trained.json", train, python, options, run_dir)
    once(run_dir / f"{options.test}.json", answer, python, options, run_dir)
    shutil.rmtree(run_dir / "imported", ignore_errors=True)
    flags = [f"--model={run_dir / 'model'}", f"--model_dir={run_dir / 'imported'}"]
    run_verb(Path(sys.executable), "import_marian", flags, run_dir / "import.log")
    translator = load_translator(run_dir / "imported")
    compare(translator, run_dir / options.test)


def write_text(options: argparse.Namespace, run_dir: Path) -> None:
    """Writes what is trained on and translated; words are the lower-cased, tokenised ones."""
    words = options.vocabulary == "words"
    for split in ("train", options.test):
        for language in ("en", "de"):
            name = f"tok/{split}.lc.norm.tok" if words else f"raw/{split}"
            lines = read_lines(options.multi30k / f"{name}.{language}.gz")
            write_lines(run_dir / f"{split}.{language}", lines)


def train(python: Path, options: argparse.Namespace, run_dir: Path) -> None:
    """Trains with Marian."""
    model = run_dir / "model"
    shutil.rmtree(model, ignore_errors=True)
    model.mkdir()
    source, target, others = _VOCABULARIES[options.vocabulary]
    arguments = f"""
        --enc-depth {options.encoder_layers} --dec-depth {options.decoder_layers}
        --dim-emb {options.d_model} --transformer-dim-ffn {2 * options.d_model}
        --after {options.updates}u --cpu-threads 1
    """.split()
    files: list[str | Path] = ["--model", model / "model.npz", "--vocabs", model / source]
    files += [model / target, "--train-sets", run_dir / "train.en", run_dir / "train.de"]
    log = run_dir / "train.log"
    call(python, ["-m", "pymarian", "train", *_TRAINING, *arguments, *others, *files], log)


def answer(python: Path, options: argparse.Namespace, run_dir: Path) -> None:
    """Has Marian score the test set's references, and translate it."""
    prefix, model = run_dir / options.test, run_dir / "model"
    source, target, _ = _VOCABULARIES[options.vocabulary]
    trained: list[str | Path] = ["-m", model / "model.npz", "-v", model / source, model / target]
    texts = [f"{prefix}.en", f"{prefix}.de"]
    scoring = ["--maxi-batch-sort", "none", "--word-scores", "-t", *texts]
    asked = [("score", scoring, "scores"), ("decode", ["-i", texts[0], "-b", "1"], "greedy")]
    for alpha in _NORMALIZE:
        search = ["-i", texts[0], "-b", str(_BEAM_SIZE), "-n", str(alpha), "--n-best"]
        asked.append(("decode", search, f"n_best_{alpha}"))
    for verb, flags, name in asked:
        output = ["-o", f"{prefix}.{name}", "--quiet"]
        log = run_dir / f"{verb}.log"
        call(python, ["-m", "pymarian", verb, *trained, *_ALONE, *flags, *output], log)


def compare(translator: Translator, answers: Path) -> None:
    """Prints how far a translator of ours is from Marian's answers.

    Args:
        translator: of the imported model.
        answers: the beginning of the names of Marian's files, and of the text's.
    """
    sources, references = (list(read_lines(Path(f"{answers}.{one}"))) for one in ("en", "de"))
    ours = [score.log_probabilities for score in translator.score(sources, references)]
    sums, pieces = zip(*_scores(Path(f"{answers}.scores")), strict=True)
    print("| what | lines | equal | largest difference |\n|---|---:|---:|---:|")
    apart = max(abs(sum(one) - other) for one, other in zip(ours, sums, strict=True))
    print(f"| score of a reference | {len(sources):,} | | {apart:.1e} |")
    both = [pair for pair in zip(ours, pieces, strict=True) if len(pair[0]) == len(pair[1])]
    print(f"| number of its pieces | {len(sources):,} | {len(both):,} | |")
    apart = max(np.abs(np.subtract(*pair)).max() for pair in both)
    print(f"| score of a piece | {len(sources):,} | | {apart:.1e} |")
    theirs = [[Translation(line, 0.0)] for line in read_lines(Path(f"{answers}.greedy"))]
    differing = list(_compare_lists("greedy", theirs, _search(translator, sources, 1, 0.0)))
    for alpha in _NORMALIZE:
        theirs = _n_best(Path(f"{answers}.n_best_{alpha}"), len(sources))
        found = _search(translator, sources, _BEAM_SIZE, alpha)
        name = f"{_BEAM_SIZE}-best lists, normalize {alpha}"
        differing += _compare_lists(name, theirs, found)
    for case, number, one, other in differing:
        row = {"case": case, "line": number + 1, "source": sources[number]}
        print(json.dumps({**row, "marian": one, "ours": other}, ensure_ascii=False))


def _scores(path: Path) -> Iterator[tuple[float, list[float]]]:
    """Yields each line's score, and those of its pieces."""
    for line in read_lines(path):
        total, pieces = line.split(" ||| WordScores= ")
        yield float(total), [float(piece) for piece in pieces.split()]


def _n_best(path: Path, count: int) -> list[list[Translation]]:
    lists: list[list[Translation]] = [[] for _ in range(count)]
    for line in read_lines(path):
        number, text, _, score = line.split(" ||| ")
        lists[int(number)].append(Translation(text, float(score)))
    return lists


def _search(
    translator: Translator, lines: list[str], beam_size: int, alpha: float
) -> list[list[Translation]]:
    settings = replace(translator.settings, search=MarianSearch(beam_size, alpha))
    return Translator(translator.models, translator.subwords, settings).translate(lines, beam_size)


def _compare_lists(
    case: str, theirs: list[list[Translation]], ours: list[list[Translation]]
) -> Iterator[tuple[str, int, list[Translation], list[Translation]]]:
    """Prints a row; yields the lists whose texts or order differ."""
    apart, equal = 0.0, 0
    for number, (one, other) in enumerate(zip(theirs, ours, strict=True)):
        if [each.text for each in one] == [each.text for each in other]:
            equal += 1
            apart = max(apart, *(abs(a.score - b.score) for a, b in zip(one, other, strict=True)))
        else:
            yield case, number, one, other
    difference = f"{apart:.1e}" if case != "greedy" else ""
    print(f"| {case} | {len(ours):,} | {equal:,} | {difference} |")


if __name__ == "__main__":
    main()
