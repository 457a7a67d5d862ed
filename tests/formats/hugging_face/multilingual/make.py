"""Makes small models of M2M-100 and NLLB, and what transformers 5 make of them, for the tests.

Needs PyTorch:

    pip install torch transformers sentencepiece protobuf requests safetensors
    python tests/formats/hugging_face/multilingual/make.py

m2m/ and nllb/ beside it are models with random weights; expected.json has ids, scores and logits.
"""

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from transformers import (
    M2M100Config,
    M2M100ForConditionalGeneration,
    M2M100Tokenizer,
    NllbTokenizer,
)

HERE = Path(__file__).parent
TEXT = [
    "the quick brown fox jumps over the lazy dog.",
    "a man in a blue shirt is standing on a ladder, cleaning a window!",
    "der schnelle braune Fuchs springt über den faulen Hund.",
    "Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche.",
]
LINES = ["the dog jumps over a window", "a man", "zwei Büsche, Ω the ½ lazy"]
SEED = 4
NLLB = ["deu_Latn", "eng_Latn", "fra_Latn", "zho_Hans", "zho_Hant"]
LANGUAGES = {"m2m": ["en", "de", "fr"], "nllb": ["eng_Latn", "deu_Latn", "fra_Latn"]}


def write_model(folder: Path, rows: int, languages: list[int]) -> Any:
    """Writes a model with random weights, and returns it."""
    sizes = {
        **{f"{stack}_attention_heads": 2 for stack in ("encoder", "decoder")},
        **{f"{stack}_ffn_dim": 12 for stack in ("encoder", "decoder")},
    }
    config = M2M100Config(
        vocab_size=rows, d_model=8, encoder_layers=2, decoder_layers=1,
        max_position_embeddings=48, **sizes,
    )  # fmt: skip
    torch.manual_seed(SEED)
    model = M2M100ForConditionalGeneration(config).eval()
    for weight in model.parameters():
        weight.data.normal_(0, 0.8)
    table = model.model.shared.weight.data
    table[languages] *= 0.3  # Few in translations.
    table[2] *= 2.5  # They end.
    table[1] = 0
    model.save_pretrained(folder)
    return model


def expected_of(
    model: Any, tokenizer: Any, name: str, code: Callable[[str], int]
) -> list[dict[str, Any]]:
    """Returns what transformers make of some lines in every direction."""
    found: list[dict[str, Any]] = []
    english, *others = LANGUAGES[name]
    for target in others:
        tokenizer.src_lang = english
        for line in LINES:
            batch = tokenizer(line, return_tensors="pt")
            search = {"max_new_tokens": 24, "output_scores": True, "return_dict_in_generate": True}
            forced = {"forced_bos_token_id": code(target)}
            greedy = model.generate(**batch, **search, **forced)
            beam = {"num_beams": 6, "length_penalty": 0.7, "early_stopping": "never"}
            best = model.generate(**batch, **search, **forced, **beam)
            labels = torch.tensor([[code(target), 9, 14, 30, 2]])
            logits = model(input_ids=batch.input_ids, labels=labels).logits[0]
            found.append(
                {
                    "line": f">>{english}<< >>{target}<< {line}",
                    "source": batch.input_ids[0].tolist(),
                    "greedy": greedy.sequences[0, 1:].tolist(),
                    "text": tokenizer.decode(greedy.sequences[0], skip_special_tokens=True),
                    "best": best.sequences[0, 1:].tolist(),
                    "score": round(best.sequences_scores.item(), 5),
                    "labels": labels[0].tolist(),
                    "logits": [[round(x, 5) for x in row] for row in logits.tolist()],
                }
            )
    # As SMaLL-100 is asked: the target's language before the source, and none is forced.
    tokenizer.src_lang = others[0]
    batch = tokenizer(LINES[0], return_tensors="pt")
    free = model.generate(**batch, max_new_tokens=24).tolist()[0]
    found.append({"line": f">>{others[0]}<< {LINES[0]}", "greedy": free[1:]})
    return found


def main() -> None:
    """Writes all files."""
    model_file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT), model_writer=model_file, model_type="bpe", vocab_size=60,
        unk_id=0, bos_id=1, eos_id=2, pad_id=-1, normalization_rule_name="identity", minloglevel=2,
    )  # fmt: skip
    processor = sentencepiece.SentencePieceProcessor(model_proto=model_file.getvalue())
    pieces = [processor.id_to_piece(number) for number in range(3, len(processor))]
    expected: dict[str, Any] = {}
    for name in ("m2m", "nllb"):
        folder = HERE / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        spm = folder / "sentencepiece.bpe.model"
        spm.write_bytes(model_file.getvalue())
        if name == "m2m":
            ids = {piece: n for n, piece in enumerate(["<s>", "<pad>", "</s>", "<unk>", *pieces])}
            (folder / "vocab.json").write_text(json.dumps(ids))
            tokenizer = M2M100Tokenizer(str(folder / "vocab.json"), str(spm))
            rows, code = len(ids) + 108, tokenizer.get_lang_id
            languages = [*tokenizer.lang_code_to_id.values()]
        else:
            tokenizer = NllbTokenizer.from_pretrained(folder, extra_special_tokens=NLLB)
            rows, code = len(tokenizer) + 2, tokenizer.convert_tokens_to_ids
            languages = [code(language) for language in NLLB]
        model = write_model(folder, rows, languages)
        tokenizer.save_pretrained(folder)
        expected[name] = expected_of(model, tokenizer, name, code)
    path = HERE / "nllb" / "tokenizer.json"
    fast = json.loads(path.read_text())
    read = {"model": {"vocab": fast["model"]["vocab"]}, "added_tokens": fast["added_tokens"]}
    path.write_text(json.dumps(read, indent=1) + "\n")
    (HERE / "expected.json").write_text(json.dumps(expected) + "\n")


main()
