"""Tags in front of a source: the code of the target language, or a corpus's of a `Mixture`."""

import re
from collections.abc import Sequence
from difflib import get_close_matches

from absl import logging

from t2t_repro.text.characters import visible
from t2t_repro.vocabulary import UNK_ID

_TAG = re.compile(r">>[^<>\s]+<<|<(?!0x)[^<>\s]+>")
_LANGUAGE = re.compile(r"(?:>>([\w-]+)<<|<2([^\W\d][\w-]*)>)\s*")


class Tags:
    """The tags of a vocabulary, such as `>>deu<<`, `<2de>` or `<news>`.

    Args:
        pieces: the name of every id of the source.
        defaults: tags of source and target for a line without, if lines may name both; or none.

    Attributes:
        languages: the tags of target languages, by the codes in them.
        defaults: the tags of lines without any; empty if a line need not name both languages.
    """

    def __init__(self, pieces: Sequence[str], defaults: Sequence[str] = ()) -> None:
        self.defaults = defaults
        self._faults: set[str] = set()
        self._known = [piece for piece in pieces[UNK_ID + 1 :] if _TAG.fullmatch(piece)]
        labels = filter(None, map(_LANGUAGE.fullmatch, self._known))
        self.languages = {label[1] or label[2]: label[0] for label in labels}

    def log(self) -> None:
        """Logs the tags of target languages, if there are any."""
        if self.languages:
            more = " ..." if len(self.languages) > 60 else ""
            codes = " ".join([*self.languages.values()][:60]) + more
            logging.info(f"each line begins with the code of its target language: {codes}")

    def warn(self, lines: Sequence[str], first: int | None) -> None:
        """Logs each fault of tags once, in all calls, and 10 at most.

        Args:
            lines: the lines to check.
            first: the number of the first line; None if they have no numbers.
        """
        for index, line in enumerate(lines):
            fault = self.fault(line)
            if fault and fault not in self._faults and len(self._faults) < 10:
                self._faults.add(fault)
                where = "a text" if first is None else f"line {first + index}"
                logging.warning(f"{where}: {fault}")

    def fault(self, line: str) -> str:
        """Returns what is wrong with the tags in front of a line, or "".

        An unknown tag that resembles none of the model's counts as text.
        """
        front = re.match(rf"(\s*({_TAG.pattern}))*", visible(line)) if self._known else None
        if not front or not line.strip():
            return ""
        given, codes = _TAG.findall(front[0]), [*self.languages.values()]
        for tag in [tag for tag in given if tag not in self._known]:
            # Only for unknown tags: this takes longer than the encoding of a line.
            close = get_close_matches(tag, self._known, cutoff=0.7)
            all_codes = codes if _LANGUAGE.fullmatch(tag) else []
            if suggestions := list(dict.fromkeys([*close, *all_codes])):
                return f"the model does not know {tag}, but {', '.join(suggestions[:20])}"
        if codes and not {*given, *self.defaults[1:]} & {*codes}:
            return f"no target language in front, expected {', '.join(codes[:20])}"
        return ""


def languages_in_front(line: str) -> str:
    """Returns the codes in front of a line, with the white space after each."""
    text = line.lstrip()
    return text.removesuffix(re.sub(f"^({_LANGUAGE.pattern})+", "", text))
