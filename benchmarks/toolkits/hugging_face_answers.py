"""What transformers make of an exported model, run by the Python of their environment.

    python hugging_face_answers.py FOLDER

FOLDER has `model`, what was exported, and `questions.json`. Answers are `answers.json` and
`logits.npz`, from float32 on a CPU.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from transformers import MarianMTModel, MarianTokenizer

_WITH_LOGITS = 100


def main() -> None:
    """Answers."""
    # On a busy machine, threads of PyTorch that wait for each other take ten times as long.
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    folder = Path(sys.argv[1])
    questions = json.loads((folder / "questions.json").read_text(encoding="utf-8"))
    tokenizer = MarianTokenizer.from_pretrained(folder / "model")
    lines = questions["lines"]
    ids = tokenizer(lines + questions["odd"])["input_ids"]
    targets = [torch.tensor(row) for row in questions["targets"]]
    answers: dict[str, Any] = {
        "versions": {"transformers": transformers.__version__, "torch": torch.__version__},
        "ids": ids,
        "decoded": [tokenizer.decode(row, skip_special_tokens=True) for row in ids],
    }
    model = MarianMTModel.from_pretrained(folder / "model").eval()
    answers["log_probs"] = _scored(model, ids, targets, folder / "logits.npz")
    for search, options in questions["searches"].items():
        found = _translated(model, ids[: len(lines)], questions["limits"], options)
        answers[search] = [tokenizer.batch_decode(one, skip_special_tokens=True) for one in found]
    (folder / "answers.json").write_text(json.dumps(answers), encoding="utf-8")


def _scored(
    model: MarianMTModel, sources: list[list[int]], targets: list[torch.Tensor], file: Path
) -> list[float]:
    """Returns log P of each pair; saves the logits [length, vocab] of the first ones."""
    log_probs: list[float] = []
    logits: list[Any] = []
    for source, target in zip(sources, targets, strict=False):
        start = torch.tensor([model.config.decoder_start_token_id])
        shifted = torch.cat([start, target[:-1]])
        found = model(input_ids=torch.tensor([source]), decoder_input_ids=shifted[None]).logits[0]
        chosen = torch.log_softmax(found, dim=-1)[torch.arange(len(target)), target]
        log_probs.append(float(chosen.sum()))
        logits += [found.numpy()] * (len(logits) < _WITH_LOGITS)
    np.savez(file, *logits)
    return log_probs


def _translated(
    model: MarianMTModel,
    sources: Sequence[list[int]],
    limits: Sequence[int],
    options: dict[str, Any],
) -> Iterator[torch.Tensor]:
    """Translates each sentence by itself, with the limit that ours has."""
    count = options["num_beams"]
    for ids, limit in zip(sources, limits, strict=False):
        more = {"max_new_tokens": limit, "num_return_sequences": count, **options}
        yield model.generate(input_ids=torch.tensor([ids]), **more)


if __name__ == "__main__":
    main()
