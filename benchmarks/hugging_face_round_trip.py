"""Whether transformers make of an exported model what we make of it ourselves.

    python benchmarks/hugging_face_round_trip.py --model_dir=runs/multi30k_tiny/model \
        --lines=test.en

Exports the model, and has transformers load it in an environment of their own. Compared are ids and
decoded text of all lines (and of odd ones), logits and log P(our greedy translation | line), and
translations: greedy, and with the exported beam (ours with their penalty, too). Both compute in
float32 on a CPU. Prints a JSON line a figure.
"""

import argparse
import json
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import tensorflow as tf

from environments import DEFAULT_ENV_DIR, make_environment
from t2t_repro.data.line_files import read_lines
from t2t_repro.decoding.beam_search import BeamSearch, power_penalty
from t2t_repro.decoding.loading import load_translator
from t2t_repro.decoding.translator import Translator
from t2t_repro.formats.marian.hugging_face_export import HuggingFaceModel
from t2t_repro.model.transformer import Transformer
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.runs.records import mean_target_length
from t2t_repro.vocabulary import PAD_ID
from toolkits.steps import Facts

_ANSWERS = Path(__file__).parent / "toolkits" / "hugging_face_answers.py"
_WITH_LOGITS = 100
_SEARCH = ("num_beams", "length_penalty")
_ODD = [
    "", " ", "  two   blanks  inside ", "\ttab\t", "naïve café, Zürich – „Anführung“ “quotes” ’s",
    "🙂👩\u200d👩\u200d👧 ½ ﬁ ① Ａ", "日本語 русский العربية", "</s> <unk> <pad> <s>", "a</s>b",
    "<0x41> <pad_column>", "a\u2581b", "\u00a0no break\u3000wide", "zero\u200bwidth \u00adsoft",
    "x" * 400, "<2de> tag", "%\\n\\t", "\u0301combining e\u0301 é", "1,234.56 €", "don't can't",
    "\ufeffmark", "a >>fra<< b", ">>fra<< a",
]  # fmt: skip


def main() -> None:
    """Compares, and prints what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model_dir", required=True)
    parser.add_argument("--checkpoint")
    parser.add_argument("--lines", type=Path, required=True, help="source sentences")
    parser.add_argument("--env_dir", type=Path, default=DEFAULT_ENV_DIR)
    arguments = parser.parse_args()
    translator = load_translator(
        arguments.model_dir, checkpoint=arguments.checkpoint, precision="float32"
    )
    mean_length = mean_target_length(ModelDirectory(arguments.model_dir).epoch_json)
    exported = HuggingFaceModel(translator, mean_length)
    lines = list(read_lines(arguments.lines))
    # Last: it is a gigabyte that may have to be downloaded.
    python = make_environment(arguments.env_dir, "hugging_face")
    with TemporaryDirectory() as folder:
        exported.write(Path(folder) / "model", "")
        for row in compare(translator, exported, lines, python, Path(folder)):
            print(json.dumps({"benchmark": "Hugging Face round trip", **row}))


def compare(
    translator: Translator,
    exported: HuggingFaceModel,
    lines: list[str],
    python: Path,
    folder: Path,
) -> Iterator[Facts]:
    """Asks both sides, and compares.

    Args:
        translator: ours.
        exported: the same, as it lies in the folder's `model`.
        lines: source sentences.
        python: of transformers' environment.
        folder: for questions and answers.

    Yields:
        a row a figure.
    """
    subwords, model = translator.subwords, translator.model
    ours = {
        "greedy": _texts(_with_search(translator, BeamSearch(1)), lines),
        "beam": _texts(translator, lines),
        "their penalty": _texts(_with_search(translator, _with_their_penalty(exported)), lines),
    }
    targets = subwords.target.encode(ours["greedy"])
    beam = {key: exported.generation[key] for key in _SEARCH if key in exported.generation}
    searches = {"greedy": {"num_beams": 1}, "beam": beam}
    questions = {
        "lines": lines,
        "odd": _ODD,
        "targets": targets,
        "with_logits": _WITH_LOGITS,
        "extra": translator.settings.max_extra_length,
        "searches": searches,
    }
    (folder / "questions.json").write_text(json.dumps(questions), encoding="utf-8")
    subprocess.run([python, _ANSWERS, folder], check=True)
    theirs = json.loads((folder / "answers.json").read_text(encoding="utf-8"))

    all_lines = lines + _ODD
    ids = subwords.source.encode(all_lines)
    differing = _differing(all_lines, ids, theirs["ids"])
    yield {"case": "lines with other ids", "value": len(differing), "lines": differing}
    decoded = [subwords.source.decode(row).strip() for row in theirs["ids"]]
    differing = _differing(all_lines, decoded, theirs["decoded"])
    yield {"case": "lines decoded otherwise", "value": len(differing), "lines": differing}
    apart = _logits_apart(model, ids, targets, folder)
    yield {"case": "largest difference of a logit", "value": apart}
    scores = [score.log_probability for score in translator.score(lines, ours["greedy"])]
    apart = float(np.abs(np.array(scores) - theirs["log_probs"]).max())
    yield {"case": "largest difference of log P", "value": apart}
    for name, options in searches.items():
        same = len(lines) - len(_differing(lines, ours[name], theirs[name]))
        seconds = round(theirs[f"{name}_seconds"], 1)
        row = {"case": f"equal texts, {name}", "value": same, "of": len(lines)}
        yield {**row, "options": options, "their_seconds": seconds, **theirs["versions"]}
    same = len(lines) - len(_differing(lines, ours["their penalty"], theirs["beam"]))
    yield {"case": "equal texts, beam, ours with their penalty", "value": same, "of": len(lines)}


def _with_their_penalty(exported: HuggingFaceModel) -> BeamSearch:
    generation = exported.generation
    alpha = generation.get("length_penalty", 0.0)
    return BeamSearch(generation["num_beams"], alpha, power_penalty)


def _with_search(translator: Translator, search: BeamSearch) -> Translator:
    settings = replace(translator.settings, search=search)
    return Translator(translator.models, translator.subwords, settings)


def _texts(translator: Translator, lines: list[str]) -> list[str]:
    return [found[0].text.strip() for found in translator.translate(lines)]


def _differing(lines: list[str], ours: Sequence[Any], theirs: Sequence[Any]) -> list[str]:
    pairs = zip(lines, ours, theirs, strict=True)
    return [line for line, one, other in pairs if one != other]


def _logits_apart(
    model: Transformer, sources: list[list[int]], targets: list[list[int]], folder: Path
) -> float:
    """Over all logits of the first sentences; PAD's column may stand at the end there."""
    worst = 0.0
    with np.load(folder / "logits.npz") as found:
        for theirs, source, target in zip(found.values(), sources, targets, strict=False):
            ours = model((tf.constant([source]), tf.constant([target])))[0].numpy()
            if theirs.shape[1] > ours.shape[1]:
                theirs[:, PAD_ID] = theirs[:, -1]
            worst = max(worst, float(np.abs(theirs[:, : ours.shape[1]] - ours).max()))
    return worst


if __name__ == "__main__":
    main()
