"""Trains Multi30k's published text-only model in fairseq itself, and scores it as ours is.

    taskset -c 0 python benchmarks/multi30k_fairseq.py --seed=1 --output=multi30k_fairseq.jsonl

The Transformer-Tiny of Wu et al. 2021 ("Good for Misconceived Reasons"), with the settings of their
github.com/LividWo/Revisit-MMT and the defaults of the fairseq in it. They trained on two GPUs with
4,096 tokens each: here two such batches are an update. A joint BPE of 10,000 merges (subword-nmt),
the mean of the last ten epochs, beam 5. Every step is done once: started again, it goes on where it
was killed. Prints a JSON line a split: BLEU by t2t_repro's `tokenised_bleu`, and fairseq's own.
scripts/draw_curves.py draws seed_<n>/train.log in --run_dir.
"""

import argparse
import json
from pathlib import Path

from environments import DEFAULT_ENV_DIR, make_environment
from one_line import mistakes_in_one_line
from t2t_repro.data.corpora.multi30k import Multi30kCorpus
from t2t_repro.evaluation.scores import tokenised_bleu
from toolkits import fairseq_commands as fairseq
from toolkits.recipe import Recipe
from toolkits.steps import (
    Facts,
    append_new_row,
    call,
    end_with_its_children,
    hours,
    once,
    write_lines,
)
from work import DEFAULT_DIRECTORY

RECIPE = Recipe(
    num_layers=4,
    d_model=128,
    d_ff=256,
    num_heads=4,
    dropout=0.3,
    label_smoothing=0.1,
    learning_rate=0.005,
    warmup_steps=2000,
    adam_epsilon=1e-8,
    steps=8000,
    averaged=10,
    beam_size=5,
    length_penalty=1.0,
)
_MERGES = 10_000
_BATCHES = ["--max-tokens", "4096", "--update-freq", "2", "--clip-norm", "25"]
_EPOCHS = ["--patience", "10", "--keep-last-epochs", str(RECIPE.averaged)]
_SEARCH = [*fairseq.search_options(RECIPE), "--remove-bpe"]

_LANGUAGES = ("en", "de")
# Of our splits, fairseq's names.
_SPLITS = {"train": "train", "dev": "valid", "test": "test", "test_2017_flickr": "test1"}
_SCORED = ("dev", "test", "test_2017_flickr")


def main() -> None:
    """Does the steps that are not done yet, and prints what came out."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--multi30k", help="a copy of its repository; else downloaded")
    parser.add_argument("--run_dir", type=Path, default=DEFAULT_DIRECTORY / "multi30k_fairseq")
    parser.add_argument("--env_dir", type=Path, default=DEFAULT_ENV_DIR)
    parser.add_argument("--output", type=Path, help="JSON lines are appended to it, too")
    arguments = parser.parse_args()
    end_with_its_children()
    python = make_environment(arguments.env_dir, "fairseq")
    run_dir = arguments.run_dir.resolve()
    for line in run(python, run_dir, arguments.multi30k, arguments.seed):
        print(json.dumps(line))
        if arguments.output:
            append_new_row(arguments.output, line)


def run(python: Path, run_dir: Path, multi30k: str | None, seed: int) -> list[Facts]:
    """Prepares the text, trains a seed, averages, translates and scores.

    Args:
        python: of fairseq's environment.
        run_dir: where everything is kept; the text is shared by all seeds.
        multi30k: a copy of its repository, or None.
        seed: of the training.

    Returns:
        a line a split.
    """
    corpus = Multi30kCorpus("en", "de", pretokenized=True, local_dir=multi30k)
    text, model = run_dir / "text", run_dir / f"seed_{seed}"
    data, average = text / "binary", model / "average.pt"
    options = [*fairseq.training_options(RECIPE), *_BATCHES, *_EPOCHS]
    once(text / "done.json", prepare, python, corpus, text)
    trained = once(model / "trained.json", fairseq.train, python, data, model, options, seed)
    once(model / "averaged.json", fairseq.average, python, model, RECIPE.averaged, average)
    log = model / "train.log"
    lines = []
    for split in _SCORED:
        translate = fairseq.translate, python, data, average, _SPLITS[split], _SEARCH
        found = once(model / f"{split}.json", *translate)
        references = [target for _, target in corpus.read(split, text)]
        score = tokenised_bleu(found["translations"], references)
        lines.append(
            {
                "benchmark": "Multi30k en→de, text only",
                "case": split,
                "peer": f"fairseq, seed {seed}",
                "unit": "BLEU",
                "value": round(score.value, 2),
                "signature": score.signature,
                "fairseq_bleu": found["own_bleu"],
                **trained,
                **hours(log),
            }
        )
    return lines


def prepare(python: Path, corpus: Multi30kCorpus, text: Path) -> None:
    """Writes the corpus as text, learns and applies the joint BPE, and makes fairseq's ids of it.

    Args:
        python: of fairseq's environment, which has subword-nmt, too.
        corpus: Multi30k, tokenised.
        text: the folder to write to.
    """
    text.mkdir(parents=True, exist_ok=True)
    corpus.prepare(text)
    for split, name in _SPLITS.items():
        for language, lines in zip(
            _LANGUAGES, zip(*corpus.read(split, text), strict=True), strict=True
        ):
            write_lines(text / f"{name}.words.{language}", lines)
    both = [text / f"train.words.{language}" for language in _LANGUAGES]
    (text / "train.words.both").write_bytes(b"".join(path.read_bytes() for path in both))
    codes, log = text / "codes", text / "bpe.log"

    def subword_nmt(module: str, read: Path, write: Path, *options: str) -> None:
        arguments = ["-m", f"subword_nmt.{module}", *options]
        call(python, [*arguments, "-i", read, "-o", write], log)

    subword_nmt("learn_bpe", text / "train.words.both", codes, "-s", str(_MERGES))
    for name in _SPLITS.values():
        for language in _LANGUAGES:
            words, pieces = (text / f"{name}.{form}.{language}" for form in ("words", "bpe"))
            subword_nmt("apply_bpe", words, pieces, "-c", str(codes))
    prefixes = {"train": ["train"], "valid": ["valid"], "test": ["test", "test1"]}
    found = {split: [text / f"{name}.bpe" for name in names] for split, names in prefixes.items()}
    fairseq.preprocess(python, found, _LANGUAGES, text / "binary")


if __name__ == "__main__":
    mistakes_in_one_line(main)
