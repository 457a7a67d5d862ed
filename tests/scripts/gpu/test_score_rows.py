"""Scores become rows, as evaluation writes them."""

import json
import subprocess
import sys

from t2t_repro.analysis.run_record import Evaluation
from t2t_repro.evaluation.scores import Score
from tests.processes import CHECKOUT


def test_a_row_for_every_score_of_every_split(tmp_path):
    folder = tmp_path / "multi30k_seed_1" / "scores"
    folder.mkdir(parents=True)
    scores = [Score("BLEU", 40.3, "tok:13a"), Score("chrF", 61.0)]
    evaluation = Evaluation("averaged/step-8000", 5.0, scores).as_dict()
    for split in ("dev", "test"):
        (folder / f"{split}.json").write_text(json.dumps(evaluation))
    script = CHECKOUT / "scripts" / "gpu" / "score_rows.py"
    command = [sys.executable, str(script), str(folder.parent)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = [json.loads(line) for line in said.splitlines()]
    assert [(row["case"], row["unit"], row["value"]) for row in rows] == [
        (f"multi30k_seed_1, {split}", name, value)
        for split in ("dev", "test")
        for name, value in (("BLEU", 40.3), ("chrF", 61.0))
    ]
    assert {row["checkpoint"] for row in rows} == {"averaged/step-8000"}
