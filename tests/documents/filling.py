"""Fills texts as `translate --file` does, with a function in the place of a model."""

import re
from itertools import chain
from pathlib import Path

from t2t_repro.decoding.sentences import translate_sentences
from t2t_repro.documents.edits import filled, sound_text, without_key
from tests.decoding.stand_in import StandIn

# What the stand-in for a model makes of letters outside of tags and placeholders.
TABLE = str.maketrans("ehrtln", "äüöéñß")


def translated(text, model=lambda text: text.translate(TABLE)):
    """Translates a text as the command does; "" if the model has broken something."""
    (row,) = translate_sentences([without_key(text)], "en", StandIn(model))
    return sound_text(text, row, "utf-8")


def fill_all(fill, text, folder=Path(), name="file", translate=translated):
    """Returns a filled text, and how many units were left."""
    path = folder / name
    path.write_bytes(text.encode())
    edits = [*fill(path, text, translate)]
    return filled(text, chain(*edits)), edits.count([])


def both(text):
    """Returns what is before and after the arrows of «before→after» in a text."""
    return [re.sub("(?s)«(.*?)→(.*?)»", part, text) for part in (r"\1", r"\2")]
