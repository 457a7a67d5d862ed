"""What a server asks of a model's process."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

NONE_REFUSED: Mapping[int, str] = MappingProxyType({})


class Asked(NamedTuple):
    """A request, but for its body.

    Attributes:
        call: what is asked, one of `Answers.calls`.
        name: of the model, where the request's address gave it.
        version: of the model, where its address gave one.
        refused: why other versions are not served, for those who ask.
    """

    call: str
    name: str = ""
    version: int | None = None
    refused: Mapping[int, str] = NONE_REFUSED

    def as_head(self) -> dict[str, Any]:
        """For a message's head."""
        return {**self._asdict(), "refused": dict(self.refused)}

    @classmethod
    def from_head(cls, head: dict[str, Any]) -> "Asked":
        """From a message's head; JSON has made texts of the versions' numbers."""
        refused = {int(number): why for number, why in head["refused"].items()}
        return cls(head["call"], head["name"], head["version"], refused)
