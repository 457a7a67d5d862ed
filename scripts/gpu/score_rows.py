"""Prints the scores of a model directory as rows of the results.

python scripts/gpu/score_rows.py runs/multi30k_seed_1
"""

import json
import sys
from pathlib import Path


def main() -> None:
    """Prints a JSON line for every score of every split."""
    run = Path(sys.argv[1])
    for path in sorted((run / "scores").glob("*.json")):
        found = json.loads(path.read_text(encoding="utf-8"))
        case = f"{run.name}, {path.stem}"
        for score in found["scores"]:
            value = {"value": score["value"], "unit": score["metric"]}
            print(json.dumps({"benchmark": "quality", "case": case, **value}), flush=True)


if __name__ == "__main__":
    main()
