"""Models on the Hugging Face hub: their files, brought to this machine."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from t2t_repro.errors import UserError, reason_of

_NAME = re.compile(r"[\w.-]{1,96}/[\w.-]{1,96}", re.ASCII)


class HubModel(NamedTuple):
    """A model of the hub.

    Attributes:
        folder: where its files are.
        commit: the revision that they are of.
    """

    folder: Path
    commit: str


def is_hub_name(name: str) -> bool:
    """Returns whether a text that names no folder can be a model's name, such as "owner/model"."""
    return bool(_NAME.fullmatch(name)) and ".." not in name


def download(name: str, files: Sequence[str], revision: str | None = None) -> HubModel:
    """Downloads files of a model, those of them that it has.

    Args:
        name: of the model, such as "Helsinki-NLP/opus-mt-en-de".
        files: their names.
        revision: a branch, a tag or a commit; by default the newest.

    Raises:
        UserError: there is no such model, or it cannot be downloaded.
    """
    # The library takes a second to import, and is an extra.
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError

    try:
        folder = Path(snapshot_download(name, revision=revision, allow_patterns=[*files]))
    # ValueError: a name that cannot be. OSError: no network.
    except (HfHubHTTPError, ValueError, OSError) as error:
        at = f" at {revision}" if revision else ""
        raise UserError(
            f"{name}{at} cannot be downloaded from the Hugging Face hub ({reason_of(error)[:300]}):"
            " check the name and the network, or give --model a directory with its files."
        ) from error
    # Its cache names the folder after the commit.
    return HubModel(folder, folder.name)
