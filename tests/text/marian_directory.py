"""The text of a small Marian model, in the files that Hugging Face's `MarianTokenizer` writes."""

import io
import json
from pathlib import Path
from typing import Any

import sentencepiece

SOURCE_TEXT = [
    "the quick brown fox jumps over the lazy dog.",
    "a man in a blue shirt is standing on a ladder, cleaning a window!",
    "Two young, white males are outside near many bushes; it's 12 % (or so).",
    "do the dogs' men know what's a `house` - no, they don't?",
]
TARGET_TEXT = [
    "der schnelle braune Fuchs springt über den faulen Hund.",
    "ein Mann in einem blauen Hemd steht auf einer Leiter und putzt ein Fenster!",
    "Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche.",
    "wissen die Männer der Hunde, was ein „Haus“ ist – nein, oder doch?",
]
CODES = [">>fra<<", ">>deu<<", ">>cmn_Hans<<"]


def write_marian_text(folder: Path, separate: bool = False, **config: Any) -> Path:
    """Writes source.spm, target.spm, vocab.json (and target_vocab.json), tokenizer_config.json.

    Args:
        folder: is made.
        separate: whether each side has a vocabulary of its own.
        config: of the tokenizer, besides what all have.
    """
    folder.mkdir(parents=True, exist_ok=True)
    pieces = {}
    for side, text in (("source", SOURCE_TEXT), ("target", TARGET_TEXT)):
        model = train(text)
        (folder / f"{side}.spm").write_bytes(model)
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        pieces[side] = [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
    # A piece that no training text had: its model knows it, the vocabulary does not.
    known = [[p for p in of_side if p != "z"] for of_side in pieces.values()]
    if separate:
        _write(folder / "vocab.json", known[0])
        _write(folder / "target_vocab.json", [*known[1], *CODES])
    else:
        _write(folder / "vocab.json", [*known[0], *known[1], *CODES])
    values = {"source_lang": "en", "target_lang": "de", "separate_vocabs": separate, **config}
    (folder / "tokenizer_config.json").write_text(json.dumps(values))
    return folder


def train(text: list[str], vocab_size: int = 90) -> bytes:
    """Returns a SentencePiece model of a text."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text),
        model_writer=model,
        model_type="unigram",
        vocab_size=vocab_size,
        hard_vocab_limit=False,
        eos_id=0,
        unk_id=1,
        bos_id=-1,
        minloglevel=2,
    )
    return model.getvalue()


def _write(path: Path, pieces: list[str]) -> None:
    distinct = [*dict.fromkeys(pieces), "<pad>"]
    path.write_text(json.dumps({piece: number for number, piece in enumerate(distinct)}))
