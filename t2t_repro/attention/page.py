"""Attention maps as one HTML page without external files."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from t2t_repro.attention.maps import AttentionMap

# Weights are written as whole thousandths: a page of 6 layers, 8 heads and 60 subwords is 1 MB.
_SCALE = 1000

_TEMPLATE = Path(__file__).with_name("page.html")
_PLACE = "__DATA__"


class Heading(NamedTuple):
    """The lines above the maps.

    Attributes:
        model: path of the checkpoint.
        source: the sentence.
        target: its translation.
        target_origin: says whose translation it is.
    """

    model: str
    source: str
    target: str
    target_origin: str


def as_html(maps: Sequence[AttentionMap], heading: Heading) -> str:
    """Returns the page with maps.

    Text reaches the page as JSON and then as text nodes: nothing in it is markup.

    Args:
        maps: of one model.
        heading: of the page.
    """
    kinds = [
        {**attention._asdict(), "weights": np.rint(attention.weights * _SCALE).astype(int).tolist()}
        for attention in maps
    ]
    data = json.dumps({**heading._asdict(), "scale": _SCALE, "kinds": kinds}, separators=(",", ":"))
    # A script element ends at any "</script", also inside a string.
    data = data.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026")
    return _TEMPLATE.read_text(encoding="utf-8").replace(_PLACE, data)
