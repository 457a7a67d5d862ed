"""Fills subtitles (.srt) and HTML: all of their text is translated; times and markup stay."""

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

from t2t_repro.decoding.repetition import SIGN
from t2t_repro.documents.edits import Edit, Translate
from t2t_repro.documents.html import html_of, split_html
from t2t_repro.errors import UserError

# A speech: lines of a cue, without its number and times, until the next speaker's. A dash in front
# of a line begins another speaker's, a note or a bracket a song or a sound.
_HEAD = r"\ufeff?(?:[ \t]*\d+\s*\n)?[ \t]*-?\d[\d:., \t]*-->[ \t]*-?\d"
_SPEAKER = r"[ \t]*(?:<[^>]*>|\{\\[^}]*\}|[\u200e\u200f\u202a-\u202e])*(?:[-‐-—♪♫[]|>>)"
_SPEECH = re.compile(rf"(?m)^(?!{_HEAD}).*\S(?:[ \t\r]*\n(?!{_SPEAKER}|{_HEAD}).*\S)*")


def fill_subtitles(path: Path, text: str, translate: Translate) -> Iterator[list[Edit]]:
    """Yields the edit of each speaker's lines in each cue: translated as one text, wrapped again.

    Each edit is in a list, which is empty if the lines have no sound translation.

    Raises:
        UserError: the file has no times, ends its lines with CR alone, or is WebVTT, which has
            styles that are not text.
    """
    if re.match("\ufeff?WEBVTT", text) or not re.search(rf"(?m)^{_HEAD}.*\n|\A\s*\Z", text):
        problem = f"{path} is WebVTT, has no times, or ends its lines with CR alone"
        raise UserError(f"{problem}; expected SubRip with LF: convert it (ffmpeg -i FILE NEW.srt).")
    for speech in _SPEECH.finditer(text):
        # Scripts without blanks need none at a line break.
        joined = re.sub(rf"(?<={SIGN})\s*\n\s*(?={SIGN})", "", speech[0])
        translation = translate(" ".join(joined.split()))
        # Players show 42 characters a line, or as many as the source has. A tag is not wrapped: its
        # blanks are hidden until the lines are joined.
        width = max(42, *map(len, speech[0].splitlines()))
        hidden = re.sub("<[^<>]*>", lambda tag: tag[0].replace(" ", "\0"), translation)
        lines = textwrap.wrap(hidden, width, break_long_words=False, break_on_hyphens=False)
        # Lines end like the line before the speech.
        newline = "\r\n" if text.startswith("\r\n", speech.start() - 2) else "\n"
        yield [(*speech.span(), newline.join(lines).replace("\0", " "))] if translation else []


def fill_html(path: Path, text: str, translate: Translate) -> Iterator[list[Edit]]:
    """Yields the edit of each text of `split_html`, in a list: an empty one if untranslated."""
    # `path` is not used: all formats have the same arguments.
    end = 0
    for piece, words in split_html(text):
        end += len(piece)
        if words:
            new = html_of(translate(words), piece)
            yield [(end - len(piece), end, new)] if new else []
