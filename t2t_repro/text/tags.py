"""Tags in front of a source: its target's language code, or the tag of a corpus in a `Mixture`."""

import re
from collections.abc import Sequence
from difflib import get_close_matches

from absl import logging

from t2t_repro.text.characters import visible
from t2t_repro.vocabulary import UNK_ID

# <0x41> is a byte.
TAG = re.compile(r">>[^<>\s]+<<|<(?!0x)[^<>\s]+>")
# The code is group 1 or group 2. In >>Ja<<, ">>" are quotation marks.
_LANGUAGE = re.compile(r"(?:>>([a-z]\w{1,3}(?:[_-][\w-]+)?)<<|<2([^\W\d][\w-]*)>)\s*")


class Tags:
    """The tags of a vocabulary, such as `>>deu<<`, `<2de>` or `<news>`.

    Args:
        pieces: the name of every id of the source.
        defaults: the source's and the target's tag for a line without tags; none unless lines may
            name both languages.

    Attributes:
        languages: the tags of target languages, by the codes in them.
        defaults: as given.
    """

    def __init__(self, pieces: Sequence[str], defaults: Sequence[str] = ()) -> None:
        self.defaults = defaults
        self._logged: set[str] = set()
        self._known = [piece for piece in pieces[UNK_ID + 1 :] if TAG.fullmatch(piece)]
        matches = filter(None, map(_LANGUAGE.fullmatch, self._known))
        self.languages = {match[1] or match[2]: match[0] for match in matches}

    def log(self) -> None:
        """Logs the tags of target languages, the first 60, if there are any."""
        if self.languages:
            tags = " ".join([*self.languages.values()][:60])
            more = " ..." if len(self.languages) > 60 else ""
            verb = "may begin" if any(self.defaults[1:]) else "begins"
            logging.info(f"each line {verb} with the code of its target language: {tags}{more}")

    def warn(self, lines: Sequence[str], first: int | None) -> None:
        """Logs each different fault of tags once over all calls, and 10 faults at most.

        Args:
            lines: the lines to check.
            first: the number of the first line; None if they have no numbers.
        """
        for index, line in enumerate(lines):
            fault = self.fault(line)
            if fault and fault not in self._logged and len(self._logged) < 10:
                self._logged.add(fault)
                where = "a text" if first is None else f"line {first + index}"
                logging.warning(f"{where}: {fault}")

    def fault(self, line: str) -> str:
        """Returns what is wrong with the tags in front of a line, or "".

        An unknown tag counts as text, unless it is a language's or similar to a known tag.
        """
        if not self._known or not line.strip():
            return ""
        # This matches any line, so `front` is never None; without tags, the match is "" or blanks.
        front = re.match(rf"(\s*({TAG.pattern}))*", visible(line))
        tags = TAG.findall(front[0]) if front else []
        languages = list(self.languages.values())
        # Known tags are skipped: the search takes longer than the encoding of a line.
        for tag in (tag for tag in tags if tag not in self._known):
            similar = get_close_matches(tag, self._known, cutoff=0.7)
            others = languages if _LANGUAGE.fullmatch(tag) else []
            if suggestions := list(dict.fromkeys(similar + others)):
                return f"the model does not know {tag}, but {', '.join(suggestions[:20])}"
        # The target's default, the second, counts as a tag in front; the source's does not.
        if languages and not {*tags, *self.defaults[1:]} & {*languages}:
            return f"no target language in front, expected {', '.join(languages[:20])}"
        return ""


def languages_in_front(line: str) -> str:
    """Returns the beginning of a line up to its last language tag, and the white space after it.

    It has all tags up to there, also those of corpora: it is "<news> <2de> " of
    "  <news> <2de> Hello". White space at the start is left out. "" if no tag is a language's.
    """
    front = re.match(rf"((?:{TAG.pattern})\s*)*({_LANGUAGE.pattern})", line.lstrip())
    return front[0] if front else ""
