"""Gives readers files that reach new code: `python -m tests.fuzz.guided --target=treebank`.

Beside `tests.fuzz.run`, whose inputs are drawn, these are bred: libFuzzer keeps those that reached
branches of t2t_repro or gin not seen before. Needs atheris (pip install atheris). An input that is
neither read nor refused with a UserError ends it, and lies as crash-* in the working directory.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import atheris

from tests.fuzz.run import _outcome, _restore, write_valid
from tests.processes import in_child

_MEGABYTES = 6000
_LONGEST = 20_000


def fuzz(read: Callable[[Path], object], folder: Path, limits: Sequence[str]) -> None:
    """Fuzzes a reader; ends the process, as libFuzzer does.

    Args:
        read: what reads a folder.
        folder: its "valid" holds files that are.
        limits: options of libFuzzer.
    """
    valid, spoilt, corpus = (folder / name for name in ("valid", "spoilt", "corpus"))
    files = sorted(p.relative_to(valid) for p in valid.rglob("*") if p.is_file())
    corpus.mkdir()
    for number, file in enumerate(files):
        (corpus / str(number)).write_bytes(bytes([number]) + (valid / file).read_bytes())
        (spoilt / file).parent.mkdir(parents=True, exist_ok=True)
    _restore(valid, spoilt)

    def read_with(data: bytes) -> None:
        """Puts data in the place of the file that its first byte names."""
        if data:
            (spoilt / files[data[0] % len(files)]).write_bytes(data[1:])
            outcome = _outcome(read, spoilt)
            _restore(valid, spoilt)
            if outcome not in ("read", "refused"):
                raise RuntimeError(outcome)

    atheris.Setup([sys.argv[0], *limits, str(corpus)], read_with)
    atheris.Fuzz()


def main() -> int:
    """Fuzzes one target; libFuzzer's status, 0 where nothing was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", required=True, help="as in tests.fuzz.run")
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--minutes", type=float, default=10)
    given = parser.parse_args()
    limits = [f"-runs={given.inputs}", f"-max_total_time={round(60 * given.minutes)}"]
    limits += [f"-rss_limit_mb={_MEGABYTES}", "-timeout=20", f"-max_len={_LONGEST}"]
    with atheris.instrument_imports(include=["t2t_repro", "gin"]):
        from tests.fuzz.targets import TARGETS
    with tempfile.TemporaryDirectory(prefix="guided-") as name:
        folder = Path(name)
        write_valid(given.target, folder / "valid")
        return in_child(lambda: fuzz(TARGETS[given.target].read, folder, limits))


if __name__ == "__main__":
    sys.exit(main())
