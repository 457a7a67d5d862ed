"""Whether transformers make of an exported model what we make of it ourselves.

    python benchmarks/hugging_face_round_trip.py --model_dir=runs/multi30k_tiny/model \
        --lines=test.en

Exports the model, and has transformers load it in an environment of their own. Compared are ids and
decoded text of all lines (and of odd ones), logits and log P(our greedy translation | line), greedy
translations, and n-best lists of the exported beam, ours with their length penalty. Both compute in
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
from t2t_repro.decoding.loading import load_translator
from t2t_repro.decoding.search import Search
from t2t_repro.decoding.settings import BeamSearch, power_penalty
from t2t_repro.decoding.translator import Translator
from t2t_repro.formats.hugging_face import export
from t2t_repro.model.transformer import Transformer
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.runs.records import mean_target_length
from t2t_repro.vocabulary import PAD_ID
from toolkits.steps import Facts

_ANSWERS = Path(__file__).parent / "toolkits" / "hugging_face_answers.py"
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
    parser.add_argument("--lines", type=Path, required=True, help="source sentences")
    parser.add_argument("--env_dir", type=Path, default=DEFAULT_ENV_DIR)
    arguments = parser.parse_args()
    translator = load_translator(arguments.model_dir, precision="float32")
    mean_length = mean_target_length(ModelDirectory(arguments.model_dir).epoch_json)
    exported = export.HuggingFaceModel(translator, mean_length)
    lines = list(read_lines(arguments.lines))
    # Last: it is a gigabyte that may have to be downloaded.
    python = make_environment(arguments.env_dir, "hugging_face")
    with TemporaryDirectory() as folder:
        exported.write(Path(folder) / "model", "")
        for row in compare(translator, exported, lines, python, Path(folder)):
            print(json.dumps({"benchmark": "Hugging Face round trip", **row}))


def compare(
    translator: Translator,
    exported: export.HuggingFaceModel,
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
    beam = {key: exported.generation[key] for key in ("num_beams", "length_penalty")}
    search: Any = translator.settings.search
    as_theirs = replace(search, length_penalty=beam["length_penalty"], penalty=power_penalty)
    searches = {"greedy": BeamSearch(1), "beam": as_theirs}
    ours = {name: _n_best(translator, search, lines) for name, search in searches.items()}
    ids = subwords.source.encode(lines + _ODD)
    targets = subwords.target.encode(_best(ours["greedy"]))
    questions: dict[str, Any] = {
        "lines": lines,
        "odd": _ODD,
        "targets": targets,
        "limits": [translator.max_target_length(len(row)) for row in ids],
        "searches": {"greedy": {"num_beams": 1}, "beam": beam},
    }
    (folder / "questions.json").write_text(json.dumps(questions), encoding="utf-8")
    subprocess.run([python, _ANSWERS, folder], check=True)
    theirs = json.loads((folder / "answers.json").read_text(encoding="utf-8"))

    yield {"case": "versions", **theirs["versions"]}
    yield _equal("ids", ids, theirs["ids"])
    decoded = [subwords.source.decode(row).strip() for row in theirs["ids"]]
    yield _equal("decoded lines", decoded, theirs["decoded"])
    scores = [score.log_probability for score in translator.score(lines, _best(ours["greedy"]))]
    apart = _logits_apart(model, ids, targets, folder / "logits.npz")
    yield {"case": "largest difference of a logit", "value": apart}
    apart = float(np.abs(np.array(scores) - theirs["log_probs"]).max())
    yield {"case": "largest difference of log P", "value": apart}
    for name, texts in ours.items():
        yield _equal(f"texts, {name}", _best(texts), _best(theirs[name]))
        yield _equal(f"n-best lists, {name}", texts, theirs[name])


def _best(n_best: list[list[str]]) -> list[str]:
    return [texts[0] for texts in n_best]


def _n_best(translator: Translator, search: Search, lines: list[str]) -> list[list[str]]:
    settings = replace(translator.settings, search=search)
    alike = Translator(translator.models, translator.subwords, settings)
    found = alike.translate(lines, search.beam_size)
    return [[one.text.strip() for one in translations] for translations in found]


def _equal(case: str, ours: Sequence[Any], theirs: Sequence[Any]) -> Facts:
    pairs = enumerate(zip(ours, theirs, strict=True), 1)
    others = [number for number, (one, other) in pairs if one != other]
    equal = len(ours) - len(others)
    return {"case": f"equal {case}", "value": equal, "of": len(ours), "differing": others[:9]}


def _logits_apart(
    model: Transformer, sources: list[list[int]], targets: list[list[int]], file: Path
) -> float:
    """Over all logits of the first sentences; PAD's column may stand at the end there."""
    worst = 0.0
    with np.load(file) as found:
        for theirs, source, target in zip(found.values(), sources, targets, strict=False):
            ours = model((tf.constant([source]), tf.constant([target])))[0].numpy()
            if theirs.shape[1] > ours.shape[1]:
                theirs[:, PAD_ID] = theirs[:, -1]
            worst = max(worst, float(np.abs(theirs[:, : ours.shape[1]] - ours).max()))
    return worst


if __name__ == "__main__":
    main()
