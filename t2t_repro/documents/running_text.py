"""Subtitles (.srt) and HTML: all of their text is translated; times and markup stay."""

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

from t2t_repro.documents.edits import Edit, Translate
from t2t_repro.documents.html import html_of, split_html
from t2t_repro.errors import UserError

# The lines of a cue without its number and times. One with a dash in front is another speaker's.
_HEAD = r"\ufeff?[ \t]*\d+\s*\n.*-->|.*-->"
_CJK = "[\u3001-\u30ff\u4e00-\u9fff！-～]"
_SPEAKER = r"[ \t]*(?:<[^>]*>|\{\\[^}]*\}|[\u200e\u200f\u202a-\u202e])*(?:[-‐-—]|>>)"
_SPEECH = re.compile(rf"(?m)^(?!{_HEAD}).*\S(?:[ \t\r]*\n(?!{_SPEAKER}|{_HEAD}).*\S)*")


def fill_subtitles(path: Path, text: str, translate: Translate) -> Iterator[list[Edit]]:
    """Yields the edit of what each speaker of each cue says: one text, wrapped again.

    Raises:
        UserError: it is WebVTT, whose notes and styles would be translated, or ends lines with CR.
    """
    if text.lstrip("\ufeff").startswith("WEBVTT") or ("\r" in text and "\n" not in text):
        fix = "expected SubRip with LF: convert it (ffmpeg -i FILE NEW.srt)"
        raise UserError(f"{path} is WebVTT, or ends its lines with CR alone; {fix}.")
    newline = "\r\n" if "\r\n" in text else "\n"
    for speech in _SPEECH.finditer(text):
        # Chinese and Japanese have no blanks.
        text = re.sub(rf"(?<={_CJK})\s*\n\s*(?={_CJK})", "", speech[0])
        new = translate(" ".join(text.split()))
        # Players show 42 characters; tags are not divided.
        width = max(42, *map(len, speech[0].splitlines()))
        new = re.sub("<[^<>]*>", lambda tag: tag[0].replace(" ", "\0"), new)
        lines = textwrap.wrap(new, width, break_long_words=False, break_on_hyphens=False)
        yield [(*speech.span(), newline.join(lines).replace("\0", " "))] if new else []


def fill_html(path: Path, text: str, translate: Translate) -> Iterator[list[Edit]]:
    """Yields the edit of each piece of text; see `split_html`."""
    place = 0
    for piece, words in split_html(text):
        place += len(piece)
        if words:
            new = html_of(translate(words), piece)
            yield [(place - len(piece), place, new)] if new else []
