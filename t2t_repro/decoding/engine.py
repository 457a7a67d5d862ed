"""The protocol of an engine, which translates lines; servers call nothing else of it.

`Translator` is an engine. Others need no TensorFlow, and neither does this module.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from t2t_repro.decoding.search import Translation
from t2t_repro.progress import Report
from t2t_repro.text.subword_model import SubwordPair
from t2t_repro.text.tags import Tags

if TYPE_CHECKING:
    from t2t_repro.decoding.translator import PairScore


class Engine(Protocol):
    """Translates lines, for servers that call it from several threads."""

    @property
    def subwords(self) -> SubwordPair:
        """The subword models of source and target."""

    @property
    def tags(self) -> Tags:
        """The tags of the source's vocabulary."""

    @property
    def beam_size(self) -> int:
        """The most translations of a line."""

    @property
    def trained_length(self) -> int:
        """The most subwords of a line that it translates well, EOS included."""

    @property
    def aligns(self) -> bool:
        """Whether `align` may be called."""

    @property
    def align(self) -> Callable[[Iterable[str], Iterable[str]], list[str]] | None:
        """Aligns lines with translations (see `Translator.align`); call it only if `aligns`."""

    @property
    def score(self) -> "Callable[..., list[PairScore]] | None":
        """Scores given translations (see `Translator.score`).

        None if the engine only translates; it then takes no prefixes either.
        """

    def translate(
        self,
        lines: Iterable[str],
        n_best: int = 1,
        prefixes: Iterable[str] | None = None,
        *,
        first: int | None = 1,
        report: Report = None,
    ) -> list[list[Translation]]:
        """Translates lines, and logs which are cut off (see `Translator.translate`)."""
