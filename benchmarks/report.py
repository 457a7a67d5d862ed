"""Prints the results of one or more runs as Markdown tables.

    python benchmarks/report.py results.jsonl [more.jsonl]

Reads JSON lines with at least "benchmark", "case", "value" and "unit". Where lines have a "peer",
cases are columns and peers are rows, and each cell says median (min–max) and, where it is known,
the share of the measured matrix-product rate. Of the same measurement made twice the last counts.
"""

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Line = dict[str, Any]


def main() -> None:
    """Reads the files and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    arguments = parser.parse_args()
    texts = [path.read_text(encoding="utf-8") for path in arguments.files]
    lines = [json.loads(row) for text in texts for row in text.splitlines() if row.strip()]
    print(tables(lines))


def tables(lines: Iterable[Line]) -> str:
    """All tables, one for every benchmark and unit, in the order in which they were measured."""
    groups: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        groups.setdefault((line["benchmark"], line["unit"]), []).append(line)
    parts = []
    for (benchmark, unit), group in groups.items():
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
    latest = {line["case"]: line for line in lines}
    rows = [["case", unit], ["---", "---:"]]
    return _markdown(rows + [[case, _cell(line)] for case, line in latest.items()])


def _cell(line: Line) -> str:
    """Median (min–max), share."""
    text = _number(line["value"])
    if "min" in line and "max" in line:
        text += f" ({_number(line['min'])}–{_number(line['max'])})"
    if "share_of_matmul" in line:
        text += f", {line['share_of_matmul']:.0%}"
    return text


def _number(value: Any) -> str:
    """Three digits, thousands with commas; what is no number as it is."""
    if not isinstance(value, int | float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _footer(lines: list[Line]) -> str:
    """The measured matrix-product rates, versions and dates, as far as lines have them."""
    parts = []
    rates: dict[str, list[float]] = {}
    for line in lines:
        if "matmul_gflops" in line:
            rates.setdefault(line["case"], []).append(line["matmul_gflops"])
    if rates:
        each = [f"{case} {_number(sum(of) / len(of))}" for case, of in rates.items()]
        parts.append(f"Matrix products, GFLOP/s: {', '.join(each)}.")
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
