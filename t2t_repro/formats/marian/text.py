"""The files of Hugging Face's `MarianTokenizer`: read with ids in our order, and written.

source.spm, target.spm   SentencePiece models of both sides
vocab.json               the id of every piece; only of the source's with
target_vocab.json        those of the target, with `separate_vocabs`
tokenizer_config.json    languages, and the names of special tokens
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from t2t_repro.errors import UserError
from t2t_repro.files import read_at_most, read_json
from t2t_repro.formats.marian.fields import Fields, read_file
from t2t_repro.formats.marian.model import MarianSide, MarianText
from t2t_repro.text.marian import MarianFile, MarianSubwords
from t2t_repro.text.sentencepiece import MAX_FILE_BYTES
from t2t_repro.text.subword_model import SubwordModel

_SPECIAL = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
"""Default names of the special tokens, in the order of our ids."""

_CONFIG = "tokenizer_config.json"
_SPECIAL_MAP = "special_tokens_map.json"
_ADDED = "added_tokens.json"

_DESCRIPTIVE = {
    "_commit_hash", "backend", "bos_token", "max_length", "model_input_names", "name_or_path",
    "padding", "padding_side", "processor_class", "return_tensors", "source_lang",
    "special_tokens_map_file", "split_special_tokens", "stride", "target_lang",
    "target_vocab_file", "tokenizer_file", "transformers_version", "truncation",
    "truncation_side", "truncation_strategy",
}  # fmt: skip
"""Fields that change neither the ids of a sentence nor the text of a translation."""

_LANGUAGE_CODE = re.compile(r"(?s)>>.*<<")


def read_marian_text(directory: Path) -> MarianText:
    """Reads what `MarianTokenizer.save_pretrained` wrote.

    Raises:
        UserError: a file is missing or damaged, or a setting would change ids or text.
    """
    config = Fields(directory / _CONFIG, _read_config)
    config.require("tokenizer_class", "MarianTokenizer")
    config.require_empty("additional_special_tokens", "extra_special_tokens", "sp_model_kwargs")
    special = [_content(config.value(name)) or default for name, default in _SPECIAL.items()]
    separate = bool(config.value("separate_vocabs"))
    names = {"source": "vocab.json", "target": "target_vocab.json" if separate else "vocab.json"}
    cleans = bool(config.value("clean_up_tokenization_spaces"))
    sides = {}
    for side, name in names.items():
        ids = read_file(directory / name, _read_vocabulary)
        if len({*map(str, special)} & ids.keys()) < len(special):
            raise UserError(
                f"{directory / name} has no ids for {special}, the names of PAD, EOS and UNK; "
                f"expected three different pieces: give the vocabulary that belongs to {_CONFIG}."
            )
        model = read_file(
            directory / f"{side}.spm", lambda path: read_at_most(path, MAX_FILE_BYTES)
        )
        pieces = {number: piece for piece, number in ids.items()}
        sides[side] = MarianSide.in_our_order(
            MarianFile(model, [], cleans), pieces, [ids[name] for name in special], len(ids)
        )
    named = {str(number): name for number, name in zip(sides["source"].ids, special, strict=False)}
    for number, token in config.value("added_tokens_decoder", {}).items():
        if _content(token) != named.get(number):
            raise config.refused("added_tokens_decoder", f"only the special tokens {named}")
    longest = config.value("model_max_length")
    config.warn(_DESCRIPTIVE)
    return MarianText(**sides, max_length=longest and int(longest))


def _read_config(path: Path) -> dict[str, Any]:
    """Reads the settings, which older versions of transformers wrote into three files."""
    config = read_json(path)
    if (special := path.with_name(_SPECIAL_MAP)).exists():
        config = read_json(special) | config
    if (added := path.with_name(_ADDED)).exists():
        tokens = {str(number): token for token, number in read_json(added).items()}
        config["added_tokens_decoder"] = tokens | (config.get("added_tokens_decoder") or {})
    return config


def _read_vocabulary(path: Path) -> dict[str, int]:
    vocabulary = read_json(path)
    if {*vocabulary.values()} != {*range(len(vocabulary))}:
        raise ValueError(f"its ids are not 0 to {len(vocabulary) - 1}, each once")
    return vocabulary


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


def tokenizer_files(
    source: MarianFile,
    target: MarianFile,
    source_ids: Sequence[str],
    target_ids: Sequence[str],
    longest: int,
) -> dict[str, bytes]:
    """Returns the files of a tokenizer, by their names.

    Its ids are ours, and so is its text, except that a text that begins with ">>" and goes on with
    "<<" has the code of a language in front.

    Args:
        source: the text of the source.
        target: the text of the target.
        source_ids: the name of every id of the source.
        target_ids: the name of every id of the target.
        longest: the most subwords of a source sentence.
    """
    separate = source_ids != target_ids
    names = dict(zip(_SPECIAL, source_ids, strict=False))
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
    vocabularies = {"vocab.json": source_ids}
    if separate:
        vocabularies["target_vocab.json"] = target_ids
    files = {name: {x: i for i, x in enumerate(ids)} for name, ids in vocabularies.items()}
    texts = {
        name: (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()
        for name, content in {_CONFIG: config, **files}.items()
    }
    return texts | {"source.spm": source.model, "target.spm": target.model}
