"""Reads the files of Hugging Face's tokenizers, and writes Marian's; ids are in our order.

`MarianTokenizer`:

source.spm, target.spm   SentencePiece models of both sides
vocab.json               the id of every piece; only of the source's with
target_vocab.json        those of the target, with `separate_vocabs`
tokenizer_config.json    languages, and the names of special tokens

`M2M100Tokenizer` and `NllbTokenizer`:

sentencepiece.bpe.model  splits source and target
vocab.json               M2M-100: the id of every piece; those of languages follow
tokenizer.json           NLLB: the ids of pieces and of languages

A language is `__en__` or `eng_Latn` there, `>>en<<` or `>>eng_Latn<<` here.
"""

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

from absl import logging

from t2t_repro.errors import UserError
from t2t_repro.files import read_at_most, read_json
from t2t_repro.formats import imported
from t2t_repro.formats.hugging_face.model_card import licence_of
from t2t_repro.formats.imported import ImportedSide, ImportedText, SettingsFile, read_file, table_of
from t2t_repro.text.marian import MarianFile, MarianSubwords
from t2t_repro.text.subword_model import SubwordModel

# Default names of the special tokens, in the order of our ids.
_SPECIAL = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}

# The counterparts of transformers' settings here.
SETTINGS = table_of("hugging_face/settings.yml")

_CONFIG = "tokenizer_config.json"

_NLLB = "eng_Latn"
_NLLB_CODE = re.compile("[a-z]{3}_[A-Z][a-z]{3}")
# The source's language by default. SMaLL-100's source has the code of the target alone.
_SOURCES = {"M2M100Tokenizer": "en", "NllbTokenizer": _NLLB, "SMALL100Tokenizer": ""}

_LANGUAGE_CODE = re.compile(r"(?s)>>.*<<")


def read_marian_text(directory: Path, **_: str | None) -> ImportedText:
    """Reads the files of a `MarianTokenizer`: the subwords of both sides.

    Other families' arguments, the languages, are ignored.

    Raises:
        UserError: a file cannot be read, or a setting changes ids or text.
    """
    config = SettingsFile(directory / _CONFIG, _read_config)
    config.require_all(SETTINGS["tokenizers"]["marian"])
    special = [_content(config.value(name)) or default for name, default in _SPECIAL.items()]
    target_vocabulary = "target_vocab.json" if config.value("separate_vocabs") else "vocab.json"
    cleans = bool(config.value("clean_up_tokenization_spaces"))
    sides = {}
    for side, vocabulary in {"source": "vocab.json", "target": target_vocabulary}.items():
        file = MarianFile(imported.read_sentencepiece(directory / f"{side}.spm"), [], cleans)
        sides[side] = read_file(directory / vocabulary, partial(_read_side, file, special))
    # `ids` begins with the ids of PAD, EOS and UNK in the files. The keys of JSON are text.
    special_by_id = dict(zip(map(str, sides["source"].ids), special, strict=False))
    for number, token in config.value("added_tokens_decoder", {}).items():
        if _content(token) != special_by_id.get(number):
            raise config.refused("added_tokens_decoder", f"only the special tokens {special_by_id}")
    # Where there is no limit, transformers write 1e30.
    longest = int(min(2**31, config.value("model_max_length", 1e30)))
    config.warn(SETTINGS["tokenizer_without_effect"])
    return ImportedText(**sides, max_length=longest)


def read_m2m_text(directory: Path, source: str = "", target: str = "") -> ImportedText:
    """Reads the files of the tokenizer of M2M-100, SMaLL-100 or NLLB.

    Args:
        directory: directory of the model.
        source: the code of the source's language, such as "en"; "" or None for the tokenizer's own.
        target: that of the target's language.

    Raises:
        UserError: a file cannot be used, a setting changes ids or text, or the tokenizer has no
            such language.
    """
    config = SettingsFile(directory / _CONFIG, _read_config)
    default_source = config.one_of("tokenizer_class", _SOURCES, "NllbTokenizer")
    is_nllb = default_source == _NLLB
    config.require_all(SETTINGS["tokenizers"]["m2m_100"])
    model = imported.read_sentencepiece(directory / "sentencepiece.bpe.model")
    if is_nllb and not licence_of(directory):
        logging.warning("NLLB's published weights are not for commercial use (CC-BY-NC 4.0)")
    name = "tokenizer.json" if is_nllb else "vocab.json"
    ids, codes, special = read_file(directory / name, _read_ids)
    tags = {number: f">>{code}<<" for number, code in codes.items()}
    pieces = {number: piece for piece, number in ids.items()} | tags
    source_code = source or config.value("src_lang") or default_source
    target_code = target or config.value("tgt_lang") or ""
    wanted = [f">>{code}<<" for code in (source_code, target_code)]
    # ">><<" asks for no language: none was given, and the tokenizer has no default.
    unknown = {*wanted} - {*tags.values(), ">><<"}
    if unknown:
        known = " ".join(codes.values())
        raise UserError(f"{directory} has no language {min(unknown)}, expected one of {known}.")
    cleans = bool(config.value("clean_up_tokenization_spaces"))
    # SMaLL-100, without a default, takes the target's code from the text.
    source_file = MarianFile(model, [], cleans, languages=wanted if default_source else [])
    files = source_file, MarianFile(model, [], cleans, languages=[])
    sides = [ImportedSide.in_our_order(file, pieces, special, len(pieces)) for file in files]
    # As in `read_marian_text`.
    longest = int(min(2**31, config.value("model_max_length", 1e30)))
    config.warn(SETTINGS["tokenizer_without_effect"])
    return ImportedText(sides[0], sides[1], longest)


def _read_ids(path: Path) -> tuple[dict[str, int], dict[int, str], list[int]]:
    """Reads the vocabulary of M2M-100, vocab.json, or NLLB, tokenizer.json.

    Returns:
        the id of every piece; the languages' codes, such as "en" or "eng_Latn", by their ids; and
        the ids of PAD, EOS and UNK.
    """
    # NLLB's file has 17 MB and more.
    content = json.loads(read_at_most(path, 2**26))
    if path.name == "vocab.json":
        vocabulary = content
        # The ids of languages follow those of pieces.
        codes = dict(enumerate(SETTINGS["m2m_languages"].split(), len(vocabulary)))
    else:
        added = {token["content"]: token["id"] for token in content["added_tokens"]}
        vocabulary = content["model"]["vocab"] | added
        codes = {number: name for name, number in vocabulary.items() if _NLLB_CODE.fullmatch(name)}
    ids = {piece: int(number) for piece, number in vocabulary.items()}
    return ids, codes, [ids[name] for name in _SPECIAL.values()]


def _read_side(file: MarianFile, special: list[str], path: Path) -> ImportedSide:
    """Reads the vocabulary of a side, a map of pieces to ids.

    Args:
        file: the file of the side, still without pieces.
        special: the names of PAD, EOS and UNK in the vocabulary.
        path: path of the vocabulary.
    """
    ids = {piece: int(number) for piece, number in read_json(path).items()}
    pieces = {number: piece for piece, number in ids.items()}
    return ImportedSide.in_our_order(file, pieces, [ids[name] for name in special], len(ids))


def _read_config(path: Path) -> dict[str, Any]:
    """Reads the settings, which older versions of transformers wrote into three files.

    Where a field or token is in two of them, tokenizer_config.json at `path` counts.
    """
    config = read_json(path)
    if (special_json := path.with_name("special_tokens_map.json")).exists():
        config = read_json(special_json) | config
    if (added_json := path.with_name("added_tokens.json")).exists():
        tokens = {str(number): token for token, number in read_json(added_json).items()}
        config["added_tokens_decoder"] = tokens | (config.get("added_tokens_decoder") or {})
    return config


def _content(token: Any) -> Any:
    """Returns the text of a token: of {"content": "</s>"} and of "</s>" it is "</s>".

    None, for a token that is missing, is returned as it is.
    """
    return token.get("content") if isinstance(token, dict) else token


def marian_file(subwords: SubwordModel) -> MarianFile:
    """Returns the content of a subword model in the form of a Marian model's side.

    Raises:
        UserError: the model is not SentencePiece's, or has a symbol that `MarianTokenizer` would
            take for the code of a language.
    """
    # First: Marian's subwords, too, may have no model.
    model = subwords.sentencepiece()
    if isinstance(subwords, MarianSubwords):
        return subwords.content
    pieces = subwords.pieces()
    if codes := [*filter(_LANGUAGE_CODE.fullmatch, pieces)]:
        problem = f"{subwords.model_path} has the symbol {codes[0]}, expected such as <2de>"
        reason = "MarianTokenizer takes it for the code of a language"
        raise UserError(f"{problem}; {reason}: give --format=saved_model.")
    return MarianFile(model, pieces)


def tokenizer_files(source: MarianFile, target: MarianFile, longest: int) -> dict[str, bytes]:
    """Returns the contents of the files of a `MarianTokenizer`, by their names.

    That tokenizer encodes texts as we do, but takes a beginning such as ">>de<<" for the code of a
    language.

    Args:
        source: the subwords of the source, with a piece for every row of the model.
        target: the subwords of the target, likewise.
        longest: the most subwords of a source sentence.
    """
    are_separate = source.pieces != target.pieces
    # The first pieces are PAD, EOS and UNK.
    special = dict(zip(_SPECIAL, source.pieces, strict=False))
    # The defaults of transformers for special tokens.
    flags = dict.fromkeys(("lstrip", "normalized", "rstrip", "single_word"), False)
    config = {
        "tokenizer_class": "MarianTokenizer",
        "separate_vocabs": are_separate,
        "model_max_length": longest,
        # Otherwise "</s>" in a text would end the sentence there.
        "split_special_tokens": True,
        "clean_up_tokenization_spaces": target.clean_spaces,
        **special,
        "added_tokens_decoder": {
            str(number): {"content": name, **flags, "special": True}
            for number, name in enumerate(special.values())
        },
    }
    vocabularies = {"vocab.json": source} | ({"target_vocab.json": target} if are_separate else {})
    contents: dict[str, Any] = {_CONFIG: config}
    for name, side in vocabularies.items():
        contents[name] = {piece: number for number, piece in enumerate(side.pieces)}
    files = {"source.spm": source.model, "target.spm": target.model}
    for name, content in contents.items():
        files[name] = (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()
    return files
