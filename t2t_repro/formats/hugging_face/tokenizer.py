"""Reads and writes the files of Hugging Face's `MarianTokenizer`; ids are in our order.

source.spm, target.spm   SentencePiece models of both sides
vocab.json               the id of every piece; only of the source's with
target_vocab.json        those of the target, with `separate_vocabs`
tokenizer_config.json    languages, and the names of special tokens
"""

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

from t2t_repro.errors import UserError
from t2t_repro.files import read_json
from t2t_repro.formats.imported import ImportedSide, ImportedText, SettingsFile, read_file
from t2t_repro.text.marian import MarianFile, MarianSubwords
from t2t_repro.text.subword_model import SubwordModel

_SPECIAL = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
"""Default names of the special tokens, in the order of our ids."""

_CONFIG = "tokenizer_config.json"

_DESCRIPTIVE = {
    "_commit_hash", "backend", "bos_token", "max_length", "model_input_names", "name_or_path",
    "padding", "padding_side", "processor_class", "return_tensors", "source_lang",
    "special_tokens_map_file", "split_special_tokens", "stride", "target_lang",
    "target_vocab_file", "tokenizer_file", "transformers_version", "truncation",
    "truncation_side", "truncation_strategy",
}  # fmt: skip
"""Fields that change neither the ids of a sentence nor the text of a translation."""

_LANGUAGE_CODE = re.compile(r"(?s)>>.*<<")


def read_marian_text(directory: Path) -> ImportedText:
    """Reads the files of a `MarianTokenizer`; settings that change ids or text are refused."""
    config = SettingsFile(directory / _CONFIG, _read_config)
    config.require("tokenizer_class", "MarianTokenizer")
    # These must be missing or empty.
    for name in ("additional_special_tokens", "extra_special_tokens", "sp_model_kwargs"):
        config.require(name)
    special = [_content(config.value(name)) or default for name, default in _SPECIAL.items()]
    separate = bool(config.value("separate_vocabs"))
    target_vocabulary = "target_vocab.json" if separate else "vocab.json"
    cleans = bool(config.value("clean_up_tokenization_spaces"))
    sides = {}
    for side, vocabulary in {"source": "vocab.json", "target": target_vocabulary}.items():
        file = MarianFile(read_file(directory / f"{side}.spm", Path.read_bytes), [], cleans)
        sides[side] = read_file(directory / vocabulary, partial(_read_side, file, special))
    # In our order of ids the special tokens come first; `ids` are those of the files.
    their_ids = map(str, sides["source"].ids)
    special_by_id = dict(zip(their_ids, special, strict=False))
    for number, token in config.value("added_tokens_decoder", {}).items():
        if _content(token) != special_by_id.get(number):
            raise config.refused("added_tokens_decoder", f"only the special tokens {special_by_id}")
    # Where there is no limit, transformers write 1e30.
    longest = int(min(2**31, config.value("model_max_length", 1e30)))
    config.warn(_DESCRIPTIVE)
    return ImportedText(**sides, max_length=longest)


def _read_side(file: MarianFile, special: list[str], path: Path) -> ImportedSide:
    ids = read_json(path)
    pieces = {number: piece for piece, number in ids.items()}
    return ImportedSide.in_our_order(file, pieces, [ids[name] for name in special], len(ids))


def _read_config(path: Path) -> dict[str, Any]:
    """Reads the settings, which older versions of transformers wrote into three files."""
    config = read_json(path)
    if (special := path.with_name("special_tokens_map.json")).exists():
        config = read_json(special) | config
    if (added := path.with_name("added_tokens.json")).exists():
        tokens = {str(number): token for token, number in read_json(added).items()}
        config["added_tokens_decoder"] = tokens | (config.get("added_tokens_decoder") or {})
    return config


def _content(token: Any) -> Any:
    """Returns the text of a token, which may be described by a table."""
    return token.get("content") if isinstance(token, dict) else token


def marian_file(subwords: SubwordModel) -> MarianFile:
    """Describes a subword model as a side of a Marian model.

    Raises:
        UserError: it is not SentencePiece's, or has a symbol that `MarianTokenizer` would take for
            the code of a language.
    """
    model = subwords.sentencepiece()
    if isinstance(subwords, MarianSubwords):
        return subwords.content
    pieces = subwords.pieces()
    if codes := [*filter(_LANGUAGE_CODE.fullmatch, pieces)]:
        raise UserError(
            f"{subwords.model_path} has the symbol {codes[0]}, which MarianTokenizer takes for the "
            "code of a language; expected others, such as <2de>: give --format=saved_model."
        )
    return MarianFile(model, pieces)


def tokenizer_files(source: MarianFile, target: MarianFile, longest: int) -> dict[str, bytes]:
    """Returns the files of a tokenizer, by their names.

    Its ids are ours, and so is its text, except that a text that begins with ">>" and goes on with
    "<<" has the code of a language in front.

    Args:
        source: the text of the source, with a piece for every row of the model.
        target: that of the target.
        longest: the most subwords of a source sentence.
    """
    separate = source.pieces != target.pieces
    names = dict(zip(_SPECIAL, source.pieces, strict=False))
    plain = dict.fromkeys(("lstrip", "normalized", "rstrip", "single_word"), False)
    config = {
        "tokenizer_class": "MarianTokenizer",
        "separate_vocabs": separate,
        "model_max_length": longest,
        # Otherwise "</s>" in a text would end the sentence there.
        "split_special_tokens": True,
        "clean_up_tokenization_spaces": target.clean_spaces,
        **names,
        "added_tokens_decoder": {
            str(number): {"content": name, **plain, "special": True}
            for number, name in enumerate(names.values())
        },
    }
    vocabularies = {"vocab.json": source} | ({"target_vocab.json": target} if separate else {})
    content: dict[str, Any] = {_CONFIG: config}
    for name, side in vocabularies.items():
        content[name] = {piece: number for number, piece in enumerate(side.pieces)}
    files = {
        name: (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()
        for name, value in content.items()
    }
    return files | {"source.spm": source.model, "target.spm": target.model}
