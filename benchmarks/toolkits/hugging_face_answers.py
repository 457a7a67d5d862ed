"""What transformers make of an exported model, run by the Python of their environment.

    python hugging_face_answers.py FOLDER

FOLDER has `model`, what was exported, and `questions.json`. Answers are `answers.json` and, for
each change of the model, `CHANGE.npz` with logits, from float32 on a CPU.
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

_BATCH, _WITH_LOGITS = 32, 100


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
    for name in questions["changes"]:
        model = MarianMTModel.from_pretrained(folder / "model").eval()
        _change(model, name, questions["epsilon"])
        answers[name] = {"log_probs": _scored(model, ids, targets, folder / f"{name}.npz")}
        for search, options in questions["searches"].items():
            found = _translated(model, ids[: len(lines)], questions["limits"], options)
            answers[name][search] = [
                tokenizer.batch_decode(one, skip_special_tokens=True) for one in found
            ]
    (folder / "answers.json").write_text(json.dumps(answers), encoding="utf-8")


def _change(model: MarianMTModel, what: str, epsilon: float) -> None:
    """Changes what transformers' own converter changes of a model that Marian trained."""
    if what in ("float16", "all_three"):
        model.half().float()
    if what in ("positions", "all_three"):
        for stack in (model.model.encoder, model.model.decoder):
            stack.embed_positions.weight.copy_(stack.embed_positions.create_weight())
    if what in ("epsilon", "all_three"):
        for layer in model.modules():
            if isinstance(layer, torch.nn.LayerNorm):
                layer.eps = epsilon


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
    """Batches have sentences of one length alone: so each has the limit that ours has."""
    by_length = sorted(range(len(sources)), key=lambda number: len(sources[number]))
    found: dict[int, torch.Tensor] = {}
    while by_length:
        length = len(sources[by_length[0]])
        batch = [n for n in by_length[:_BATCH] if len(sources[n]) == length]
        by_length = by_length[len(batch) :]
        ids = torch.tensor([sources[number] for number in batch])
        answers = model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=limits[batch[0]],
            num_return_sequences=options["num_beams"],
            **options,
        )
        found |= zip(batch, answers.split(options["num_beams"]), strict=True)
    return (found[number] for number in range(len(sources)))


if __name__ == "__main__":
    main()
