"""A model's subwords as the files of Hugging Face's `MarianTokenizer`.

    source.spm, target.spm   SentencePiece's models of either side
    vocab.json               the id of every piece; of the source's alone, beside
    target_vocab.json        that of the target's, where each side has ids of its own
    tokenizer_config.json    what the special tokens are called, and their ids

Ids are ours. What `MarianTokenizer` makes of text is what ours make of it, but that it takes what
stands between ">>" and "<<" at a text's beginning for the code of a language.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from t2t_repro.errors import UserError
from t2t_repro.text.marian import MarianSubwords
from t2t_repro.text.subword_model import SubwordModel
from t2t_repro.vocabulary import EOS_ID, PAD_ID, UNK_ID

_LANGUAGE_CODE = re.compile(r">>.*<<", re.DOTALL)


@dataclass(frozen=True)
class MarianSide:
    """The text of one side, as `MarianTokenizer` has it.

    Attributes:
        model: SentencePiece's, its file.
        pieces: what every id is called, by id.
        clean_spaces: whether blanks before punctuation are taken out of translations.
    """

    model: bytes
    pieces: list[str]
    clean_spaces: bool = False

    @classmethod
    def of(cls, subwords: SubwordModel) -> "MarianSide":
        """Takes a subword model over.

        Raises:
            UserError: it is not SentencePiece's, or has a symbol that is read in another way.
        """
        if isinstance(subwords, MarianSubwords):
            content = subwords.content
            return cls(content.model, content.pieces, content.clean_spaces)
        model = subwords.sentencepiece()
        pieces = subwords.pieces()
        if codes := [piece for piece in pieces if _LANGUAGE_CODE.fullmatch(piece)]:
            raise UserError(
                f"{subwords.model_path} has the symbol {codes[0]}, which Hugging Face's "
                "MarianTokenizer takes for the code of a language and cuts otherwise; expected "
                "other symbols, such as <2de>: give --format=saved_model."
            )
        return cls(model, pieces)

    def ids(self, rows: int, *last: str) -> list[str]:
        """Returns what every id is called, where a table has more rows than there are pieces.

        Args:
            rows: how many ids there are; those without a piece get names that no text has.
            last: names of the last ones.
        """
        between = range(len(self.pieces), rows - len(last))
        return [*self.pieces, *(f"<row_{number}>" for number in between), *last]


def tokenizer_files(
    source: MarianSide,
    target: MarianSide,
    ids: tuple[Sequence[str], Sequence[str]],
    longest: int,
) -> dict[str, bytes]:
    """Returns the files of a tokenizer, by their names.

    Args:
        source: the text of the source.
        target: that of the target; perhaps the same.
        ids: what the ids of source and of target are called.
        longest: how many subwords a source has at most.
    """
    of_source, of_target = ids
    separate = of_source != of_target
    special = {"pad_token": PAD_ID, "eos_token": EOS_ID, "unk_token": UNK_ID}
    config = {
        "tokenizer_class": "MarianTokenizer",
        "separate_vocabs": separate,
        "model_max_length": longest,
        # Otherwise "</s>" in a text ends the sentence there.
        "split_special_tokens": True,
        "clean_up_tokenization_spaces": target.clean_spaces,
        **{name: of_source[number] for name, number in special.items()},
        "added_tokens_decoder": {
            str(number): _special(of_source[number]) for number in special.values()
        },
    }
    files = {
        "source.spm": source.model,
        "target.spm": target.model,
        "tokenizer_config.json": as_json(config),
        "vocab.json": _numbered(of_source),
    }
    return files | ({"target_vocab.json": _numbered(of_target)} if separate else {})


def as_json(content: Any) -> bytes:
    """Returns what a file of JSON holds, for people to read too."""
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()


def _numbered(ids: Sequence[str]) -> bytes:
    return as_json({piece: number for number, piece in enumerate(ids)})


def _special(name: str) -> dict[str, Any]:
    flags = dict.fromkeys(("lstrip", "normalized", "rstrip", "single_word"), False)
    return {"content": name, **flags, "special": True}
