"""Prints the results of one or more runs as Markdown tables.

    python benchmarks/tables.py results.jsonl [more.jsonl]

Reads JSON lines with at least "benchmark", "case", "value" and "unit". Where lines have a "peer",
cases are columns and peers are rows, and each cell says median (min–max). The last of
several results of one measurement counts. Broken lines are named and skipped.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

Line = dict[str, Any]

NEEDED = ("benchmark", "case", "value", "unit")


def main() -> None:
    """Reads the files and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    arguments = parser.parse_args()
    for path in arguments.files:
        if not path.is_file():
            parser.error(f"there is no file {path}")
    print(tables([line for path in arguments.files for line in read(path)]))


def read(path: Path) -> Iterator[Line]:
    """Yields the lines of a file.

    Raises:
        SystemExit: a line is no result.
    """
    for number, row in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            line = json.loads(row)
        except ValueError:
            if row.strip():
                print(f"line {number} of {path} is no JSON: {row[:60]!r}", file=sys.stderr)
            continue
        if not isinstance(line, dict) or not line.keys() >= set(NEEDED):
            raise SystemExit(f"error: line {number} of {path} lacks one of {', '.join(NEEDED)}")
        yield line


def tables(lines: Iterable[Line]) -> str:
    """All tables, one for every benchmark and unit, in the order in which they were measured."""
    # Of one measurement the last: also the rates and dates below a table are those of its cells.
    groups: dict[tuple[str, str], dict[tuple[str, str], Line]] = {}
    for line in lines:
        measurement = line.get("peer", "–"), line["case"]
        groups.setdefault((line["benchmark"], line["unit"]), {})[measurement] = line
    parts = []
    for (benchmark, unit), latest in groups.items():
        group = list(latest.values())
        table = _peer_table if any("peer" in line for line in group) else _plain_table
        footer = _footer(group)
        parts.append(f"### {benchmark}, {unit}\n\n{table(group)}\n" + (footer and f"\n{footer}\n"))
    return "\n".join(parts)


def _peer_table(lines: list[Line]) -> str:
    cells = {(line.get("peer", "–"), line["case"]): line for line in lines}
    peers = list(dict.fromkeys(peer for peer, _ in cells))
    cases = list(dict.fromkeys(case for _, case in cells))
    rows = [["peer", *cases], ["---"] + ["---:"] * len(cases)]
    for peer in peers:
        found = [cells.get((peer, case)) for case in cases]
        rows.append([peer, *(_cell(line) if line else "–" for line in found)])
    return _markdown(rows)


def _plain_table(lines: list[Line]) -> str:
    unit = lines[0]["unit"]
    rows = [["case", unit], ["---", "---:"]]
    return _markdown(rows + [[line["case"], _cell(line)] for line in lines])


def _cell(line: Line) -> str:
    """Median (min–max)."""
    text = _number(line["value"])
    if "min" in line and "max" in line:
        text += f" ({_number(line['min'])}–{_number(line['max'])})"
    return text


def _number(value: Any) -> str:
    """Three digits, thousands with commas; what is no number as it is."""
    if not isinstance(value, int | float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _footer(lines: list[Line]) -> str:
    """Versions and dates, as far as lines have them."""
    parts = []
    versions = {line["peer"]: line["versions"] for line in lines if "versions" in line}
    for peer, libraries in versions.items():
        named = [f"{name} {version}" for name, version in libraries.items() if name != "python"]
        parts.append(f"{peer}: {', '.join(named)}.")
    if dates := sorted(str(line["date"]) for line in lines if "date" in line):
        parts.append(f"{dates[0]} to {dates[-1]} UTC.")
    return " ".join(parts)


def _markdown(rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


if __name__ == "__main__":
    main()
