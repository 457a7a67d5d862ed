"""From the files of Hugging Face's `MarianTokenizer` to ours, with ids in our order.

source.spm, target.spm   SentencePiece's models of either side
vocab.json               the id of every piece; of the source's alone, beside
target_vocab.json        that of the target's, with `separate_vocabs`
tokenizer_config.json    languages, and how special tokens are called
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from t2t_repro.errors import UserError, reason_of
from t2t_repro.files import read_at_most, read_table, write_whole
from t2t_repro.text.marian import MarianFile, MarianSubwords
from t2t_repro.text.sentencepiece import MAX_FILE_BYTES
from t2t_repro.text.subword_model import SOURCE_SUBWORDS, TARGET_SUBWORDS, SubwordPair

_SPECIAL = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
"""How they are called unless the configuration says otherwise, in the order of our ids."""

_CONFIG = "tokenizer_config.json"
_SPECIAL_MAP = "special_tokens_map.json"
_ADDED = "added_tokens.json"

_WITHOUT_MEANING = {
    "_commit_hash", "backend", "is_local", "local_files_only", "name_or_path",
    "padding_side", "processor_class", "special_tokens_map_file", "split_special_tokens",
    "target_vocab_file", "tokenizer_file", "transformers_version", "truncation_side",
}  # fmt: skip
"""What changes no ids of a sentence that is not cut off, and no text of a translation."""


@dataclass(frozen=True)
class MarianSide:
    """The text of one side.

    Attributes:
        file: what becomes ours.
        ids: of every id of ours, the one that it has in vocab.json: [ids].
    """

    file: MarianFile
    ids: NDArray[np.int64]


@dataclass(frozen=True)
class MarianText:
    """The text of a Marian model.

    Attributes:
        source: of its source.
        target: of its target.
        shares_ids: whether both have the vocabulary of one file.
        max_length: subwords of a sentence, EOS included; what is beyond is cut off. None where the
            tokenizer's configuration has no such limit.
    """

    source: MarianSide
    target: MarianSide
    shares_ids: bool
    max_length: int | None = None

    def write(self, folder: Path) -> SubwordPair:
        """Writes a file for each side into a folder, and opens these."""
        sides = {SOURCE_SUBWORDS: self.source, TARGET_SUBWORDS: self.target}
        for name, side in sides.items():
            write_whole(folder / name, side.file.content())
        return SubwordPair(*(MarianSubwords(folder / name) for name in sides))


def read_marian_text(directory: Path) -> MarianText:
    """Reads what `MarianTokenizer.save_pretrained` wrote.

    Args:
        directory: where it lies.

    Raises:
        UserError: a file is missing or cannot be used, or says what we do not do.
    """
    config = _configuration(directory)
    special = _check_config(directory / _CONFIG, config)
    names = dict.fromkeys(("source", "target"), "vocab.json")
    separate = config.get("separate_vocabs") or False
    if separate:
        names["target"] = "target_vocab.json"
    sides = {}
    for side, name in names.items():
        vocabulary = _read(directory / name, _read_vocabulary)
        pieces, ids = _in_our_order(directory / name, vocabulary, special)
        file = MarianFile(
            model=_read(directory / f"{side}.spm", _read_sentencepiece),
            pieces=pieces,
            clean_spaces=config.get("clean_up_tokenization_spaces") or False,
        )
        sides[side] = MarianSide(file, ids)
    _check_added(directory / _CONFIG, config, special, sides["source"])
    longest = _max_length(directory / _CONFIG, config)
    return MarianText(sides["source"], sides["target"], not separate, longest)


def _configuration(directory: Path) -> dict[str, Any]:
    """What is said of the text; older versions of the library say it in three files."""
    config: dict[str, Any] = _read(directory / _CONFIG, read_table)
    if (path := directory / _SPECIAL_MAP).exists():
        config = _read(path, read_table) | config
    if (path := directory / _ADDED).exists():
        added = {str(number): token for token, number in _read(path, read_table).items()}
        there = config.get("added_tokens_decoder") or {}
        config["added_tokens_decoder"] = added | there if isinstance(there, dict) else there
    return config


def _read(path: Path, read: Callable[[Path], Any]) -> Any:
    try:
        return read(path)
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path} cannot be used ({reason_of(error)}); expected what "
            "MarianTokenizer.save_pretrained writes: copy the directory again."
        ) from error


def _read_sentencepiece(path: Path) -> bytes:
    return read_at_most(path, MAX_FILE_BYTES)


def _read_vocabulary(path: Path) -> list[str]:
    """The pieces by id."""
    vocabulary = read_table(path)
    if any(type(number) is not int for number in vocabulary.values()):
        raise ValueError("it has an id that is no whole number")
    if sorted(vocabulary.values()) != list(range(len(vocabulary))):
        raise ValueError(f"its {len(vocabulary)} ids are not 0 to {len(vocabulary) - 1}, each once")
    return sorted(vocabulary, key=vocabulary.__getitem__)


def _in_our_order(
    path: Path, pieces: list[str], special: list[str]
) -> tuple[list[str], NDArray[np.int64]]:
    """PAD, EOS and UNK first, the others as they are; and the ids that all had."""
    if missing := [name for name in special if name not in pieces]:
        raise UserError(
            f"{path} has no {' and no '.join(missing)}; expected an id for each of "
            f"{', '.join(special)}: give the vocabulary that belongs to {_CONFIG}."
        )
    first = [pieces.index(name) for name in special]
    others = [number for number in range(len(pieces)) if number not in first]
    ids = np.array([*first, *others], dtype=np.int64)
    return [pieces[number] for number in ids], ids


def _check_config(path: Path, config: dict[str, Any]) -> list[str]:
    """Checks that all of the configuration is honoured; returns what special tokens are called."""
    if (kind := config.get("tokenizer_class", "MarianTokenizer")) != "MarianTokenizer":
        raise UserError(f"{path} is of a {kind}, expected a MarianTokenizer: give such a model.")
    known = _WITHOUT_MEANING | {
        *("tokenizer_class", "source_lang", "target_lang", "added_tokens_decoder", *_SPECIAL),
        *("separate_vocabs", "clean_up_tokenization_spaces", "sp_model_kwargs"),
        "model_max_length",
    }
    for name, value in config.items():
        is_flag = name in ("separate_vocabs", "clean_up_tokenization_spaces")
        is_wrong_flag = is_flag and not isinstance(value, bool | None)
        if is_wrong_flag or (value and (name not in known or name == "sp_model_kwargs")):
            raise UserError(
                f"{path} has {name} = {value!r}, which is not supported; expected the text of a "
                "model as OPUS-MT publishes them."
            )
    special = [_content(config.get(name) or default) for name, default in _SPECIAL.items()]
    if not all(isinstance(name, str) for name in special) or len(set(special)) < len(special):
        raise UserError(f"{path} calls PAD, EOS and UNK {special}, expected three texts.")
    return special


def _check_added(path: Path, config: dict[str, Any], special: list[str], side: MarianSide) -> None:
    """Checks that no tokens were added to the vocabulary's special ones."""
    there = {str(number): name for number, name in zip(side.ids, special, strict=False)}
    added = config.get("added_tokens_decoder") or {}
    is_table = isinstance(added, dict)
    if not is_table or any(_content(token) != there.get(n) for n, token in added.items()):
        raise UserError(
            f"{path} has added_tokens_decoder = {added!r}, which is not supported; expected no "
            f"tokens but {', '.join(special)}, with the ids of vocab.json."
        )


def _max_length(path: Path, config: dict[str, Any]) -> int | None:
    """The longest sentence in subwords; where there is no limit, transformers writes 1e30."""
    given = config.get("model_max_length")
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float) or not 1 <= given <= 1e30:
        raise UserError(
            f"{path} has model_max_length = {given!r}, expected how many subwords a sentence may "
            "have, from 1 on: mend it there, or leave it out."
        )
    return int(given)


def _content(token: Any) -> Any:
    """The text of a token, which may be described by a table."""
    return token.get("content") if isinstance(token, dict) else token
