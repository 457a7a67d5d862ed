"""What transformers make of an exported model, run by the Python of their environment.

    python hugging_face_answers.py FOLDER

FOLDER has `model`, what was exported, and `questions.json`. Answers are `answers.json` and
`logits.npz`, from float32 on a CPU.
"""

import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from transformers import MarianMTModel, MarianTokenizer

_BATCH = 32


def main() -> None:
    """Answers."""
    # On a busy machine, threads of PyTorch that wait for each other take ten times as long.
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    questions = json.loads((folder / "questions.json").read_text(encoding="utf-8"))
    tokenizer = MarianTokenizer.from_pretrained(folder / "model")
    model = MarianMTModel.from_pretrained(folder / "model").eval()
    lines, extra = questions["lines"], questions["extra"]
    ids = tokenizer(lines + questions["odd"])["input_ids"]
    targets = [torch.tensor(row) for row in questions["targets"]]
    answers: dict[str, Any] = {
        "versions": {"transformers": transformers.__version__, "torch": torch.__version__},
        "ids": ids,
        "decoded": [tokenizer.decode(row, skip_special_tokens=True) for row in ids],
    }
    log_probs, logits = _scored(model, ids[: len(lines)], targets, questions["with_logits"])
    answers["log_probs"] = log_probs
    for name, options in questions["searches"].items():
        began = time.perf_counter()
        answers[name] = list(_translated(model, tokenizer, ids[: len(lines)], extra, options))
        answers[f"{name}_seconds"] = time.perf_counter() - began
    (folder / "answers.json").write_text(json.dumps(answers), encoding="utf-8")
    np.savez(folder / "logits.npz", *logits)


@torch.no_grad()
def _scored(
    model: MarianMTModel, sources: Sequence[list[int]], targets: Sequence[Any], with_logits: int
) -> tuple[list[float], list[Any]]:
    """Of each pair log P, and of the first ones the logits [length, vocab]."""
    log_probs, logits = [], []
    for number, (source, target) in enumerate(zip(sources, targets, strict=True)):
        start = torch.tensor([model.config.decoder_start_token_id])
        shifted = torch.cat([start, target[:-1]])
        found = model(input_ids=torch.tensor([source]), decoder_input_ids=shifted[None]).logits[0]
        chosen = torch.log_softmax(found, dim=-1)[torch.arange(len(target)), target]
        log_probs.append(float(chosen.sum()))
        if number < with_logits:
            logits.append(found.numpy())
    return log_probs, logits


@torch.no_grad()
def _translated(
    model: MarianMTModel,
    tokenizer: MarianTokenizer,
    sources: Sequence[list[int]],
    extra: int,
    options: dict[str, Any],
) -> Iterator[str]:
    """Batches have sentences of one length alone: so each has the limit that ours has."""
    by_length = sorted(range(len(sources)), key=lambda number: len(sources[number]))
    texts: dict[int, str] = {}
    while by_length:
        length = len(sources[by_length[0]])
        batch = [n for n in by_length[:_BATCH] if len(sources[n]) == length]
        by_length = by_length[len(batch) :]
        ids = torch.tensor([sources[number] for number in batch])
        found = model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=length + extra,
            **options,
        )
        texts |= zip(batch, tokenizer.batch_decode(found, skip_special_tokens=True), strict=True)
    return (texts[number] for number in range(len(sources)))


if __name__ == "__main__":
    main()
