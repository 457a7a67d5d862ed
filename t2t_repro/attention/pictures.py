"""PNG files, drawn with matplotlib where it is installed."""

import importlib.util
import io
from typing import TYPE_CHECKING

from t2t_repro.errors import UserError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DOTS_PER_INCH = 120


def check_matplotlib() -> None:
    """Says before anything is computed that pictures cannot be drawn.

    Raises:
        UserError: matplotlib is not installed.
    """
    if not importlib.util.find_spec("matplotlib"):
        raise UserError(
            "pictures are drawn with matplotlib, which is not installed: "
            "pip install 't2t_repro[plots]'."
        )


def as_png(figure: "Figure") -> bytes:
    """Returns what a file of a figure holds."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=_DOTS_PER_INCH)
    return file.getvalue()
