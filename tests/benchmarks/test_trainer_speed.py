"""Rows are read from the trainer's log, as it writes them."""

import json
import sys

from tests.processes import CHECKOUT
from trainer_speed import report, run

LINE = (
    "I1122 19:06:15.9 1397 journal.py:132] step 20/400: loss 5.9408, nll 6.9044, lr 1.500e-04, "
    "1,348,212 src+tgt tok/s, under a minute left\n"
)


def test_a_report_is_read_and_other_lines_are_not():
    assert report(LINE) == {"step": 20.0, "loss": 5.9408, "nll": 6.9044, "value": 1348212.0}
    assert report("step 20: dev nll 6.5122, perplexity 673.315, BLEU 0.45 (10 s)") is None


def test_the_log_says_it_as_the_journal_does():
    journal = (CHECKOUT / "t2t_repro" / "training" / "journal.py").read_text()
    assert 'f"step {step}/{self._pace.steps}: loss {loss:.4f}, nll {nll:.4f}, lr "' in journal
    assert 'f"{learning_rate:.3e}, {speed:,.0f} src+tgt tok/s{self._time_left(step)}"' in journal


def test_rows_come_and_the_status_is_passed_on(capfd):
    code = f"import sys; sys.stderr.write({LINE!r}); sys.exit(143)"
    assert run("news", [sys.executable, "-c", code]) == 143
    said = capfd.readouterr()
    row = json.loads(said.out)
    assert (row["benchmark"], row["case"], row["value"]) == ("trainer", "news", 1348212.0)
    assert said.err == LINE
