"""Multi30k: 29,000 image captions and their translations, small enough to train on in minutes."""

import http.client
import urllib.request
from collections.abc import Iterator
from os.path import expanduser
from pathlib import Path
from typing import Any, Literal

import gin

from t2t_repro.config.values import Text, validated
from t2t_repro.data.corpora.corpus import Pair, check_languages, check_split
from t2t_repro.data.line_files import check_line_counts, read_lines
from t2t_repro.errors import UserError
from t2t_repro.files import whole_file

BASE_URL = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1"

Language = Literal["en", "de", "fr", "cs"]
_TIMEOUT_SECONDS = 60

# The repository's name of each split and its number of lines, which shows up a truncated file.
_SPLIT_FILES = {
    "train": ("train", 29_000),
    "dev": ("val", 1_014),
    "test": ("test_2016_flickr", 1_000),
    "test_2017_flickr": ("test_2017_flickr", 1_000),
}


@gin.configurable
@validated
class Multi30kCorpus:
    """Multi30k, task 1 (Elliott et al., 2016, arXiv:1605.00459), from github.com/multi30k/dataset.

    `test` is the Flickr test set of 2016; `test_2017_flickr` is there except for Czech, for which
    it was never made.

    Args:
        source_language: one of "en", "de", "fr", "cs".
        target_language: another one of these.
        pretokenized: whether to read the text as its authors lower-cased, normalised and tokenised
            it (on which most published BLEU figures are computed) in place of the raw text.
        local_dir: a folder that has the files already: a clone of the repository, or a folder with
            `raw/train.en.gz` ... or `tok/train.lc.norm.tok.en` ..., plain or `.gz`. Nothing is
            downloaded then.

    Raises:
        UserError: a language that Multi30k does not have, or twice the same.
    """

    splits: tuple[str, ...]

    def __init__(
        self,
        source_language: Language = "en",
        target_language: Language = "de",
        pretokenized: bool = False,
        local_dir: Text | None = None,
    ) -> None:
        self._languages = (source_language, target_language)
        check_languages("Multi30kCorpus", source_language, target_language)
        self._pretokenized = pretokenized
        self._local_dir = None if local_dir is None else Path(expanduser(local_dir))
        self.splits = tuple(
            split
            for split in _SPLIT_FILES
            if split != "test_2017_flickr" or "cs" not in self._languages
        )

    def describe(self) -> dict[str, Any]:
        """Returns languages and text form; where the files lie does not change what they hold."""
        return {
            "corpus": "Multi30kCorpus",
            "source_language": self._languages[0],
            "target_language": self._languages[1],
            "pretokenized": self._pretokenized,
        }

    def prepare(self, download_dir: Path) -> None:
        """Downloads the files that are not in `download_dir/multi30k`; checks their line counts.

        Raises:
            UserError: a file cannot be fetched, is not in `local_dir`, or is not whole.
        """
        if self._local_dir is None:
            for split in self.splits:
                for language in self._languages:
                    name = self._file_name(split, language)
                    _download(f"{BASE_URL}/{name}", download_dir / "multi30k" / name)
        for split in self.splits:
            self._checked_paths(split, download_dir)

    def read(self, split: str, download_dir: Path) -> Iterator[Pair]:
        """Yields the pairs of a split.

        Args:
            split: one of `splits`.
            download_dir: the folder that `prepare` was given; not used when there is a `local_dir`.

        Raises:
            UserError: there is no such split, or a file is missing or not whole.
        """
        check_split(split, self.splits)
        source, target = self._checked_paths(split, download_dir)
        yield from zip(read_lines(source), read_lines(target), strict=True)

    def _file_name(self, split: str, language: str) -> str:
        """Returns a file's path in the repository, below data/task1."""
        stem, _ = _SPLIT_FILES[split]
        if self._pretokenized:
            return f"tok/{stem}.lc.norm.tok.{language}"
        return f"raw/{stem}.{language}.gz"

    def _checked_paths(self, split: str, download_dir: Path) -> tuple[Path, Path]:
        """Finds a split's two files and checks that they have the lines that Multi30k has."""
        source, target = (
            self._find(self._file_name(split, language), download_dir)
            for language in self._languages
        )
        received, expected = check_line_counts([source, target]), _SPLIT_FILES[split][1]
        if received != expected:
            raise UserError(
                f"{source} has {received} lines, expected {expected} as in Multi30k's {split!r}; "
                "delete it to have it fetched again, or mend local_dir"
            )
        return source, target

    def _find(self, name: str, download_dir: Path) -> Path:
        """Returns where a file lies, plain or compressed.

        Raises:
            UserError: it is not there.
        """
        root = self._local_dir or download_dir / "multi30k"
        plain = name.removesuffix(".gz")
        for folder in (root, root / "data" / "task1"):
            for path in (folder / plain, folder / f"{plain}.gz"):
                if path.is_file():
                    return path
        mend = (
            "have it downloaded (prepare)"
            if self._local_dir is None
            else "give as local_dir a clone of github.com/multi30k/dataset or a folder like its "
            "data/task1"
        )
        raise UserError(f"no file {plain} or {plain}.gz in {root}; {mend}")


def _download(url: str, path: Path) -> None:
    """Fetches a file, unless it is there; under a temporary name until it is whole."""
    if path.is_file():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with (
            urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as response,
            whole_file(path) as aside,
        ):
            aside.write_bytes(response.read())
    except (OSError, http.client.HTTPException) as error:
        raise UserError(
            f"cannot download {url} ({error}); fetch github.com/multi30k/dataset on a machine with "
            "a network and set Multi30kCorpus.local_dir to the clone"
        ) from error
