"""Prints the results of one or more runs as Markdown tables.

    python benchmarks/tables.py results.jsonl [more.jsonl]

Reads JSON lines with "benchmark", "case", "value" and "unit". Cases are columns and peers are rows;
a cell has the median (min–max). The last of several results of one measurement counts.
"""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Line = dict[str, Any]


def main() -> None:
    """Reads the files and prints the tables."""
    texts = [Path(path).read_text(encoding="utf-8") for path in sys.argv[1:]]
    print(tables(json.loads(line) for text in texts for line in text.splitlines()))


def tables(lines: Iterable[Line]) -> str:
    """Writes a table for every benchmark and unit, in the order in which they were measured."""
    groups: dict[tuple[str, str], dict[tuple[str, str], Line]] = {}
    for line in lines:
        measurement = line.get("peer", "–"), line["case"]
        groups.setdefault((line["benchmark"], line["unit"]), {})[measurement] = line
    return "\n".join(
        f"### {benchmark}, {unit}\n\n{_table(cells)}\n\n{_footer(cells.values())}\n"
        for (benchmark, unit), cells in groups.items()
    )


def _table(cells: dict[tuple[str, str], Line]) -> str:
    peers = list(dict.fromkeys(peer for peer, _ in cells))
    cases = list(dict.fromkeys(case for _, case in cells))
    rows = [["peer", *cases], ["---"] + ["---:"] * len(cases)]
    for peer in peers:
        found = [cells.get((peer, case)) for case in cases]
        rows.append([peer, *(_cell(line) if line else "–" for line in found)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(line: Line) -> str:
    spread = f" ({_number(line['min'])}–{_number(line['max'])})" if "min" in line else ""
    return _number(line["value"]) + spread


def _number(value: Any) -> str:
    if not isinstance(value, int | float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _footer(lines: Iterable[Line]) -> str:
    used = {line["peer"]: line["versions"] for line in lines if "versions" in line}
    return " ".join(
        f"{peer}: {', '.join(f'{name} {version}' for name, version in versions.items())}."
        for peer, versions in used.items()
    )


if __name__ == "__main__":
    main()
