"""Lines of the log, the version, and commands that the package itself runs."""

import os
import re
import sys

import pytest

from t2t_repro.command_line.program import import_tensorflow
from tests.commands import WITHOUT_TENSORFLOW, outcomes_of

TOKENISED = "Ein Hund rennt .\n"
SCORE = ["--translations=text", "--reference=text"]
ABSL = r"W\d{4} [\d:.]+ +\d+ scores\.py:\d+\] .+\n"
SHORT = r"\d\d:\d\d:\d\d warning: .+\n"


@pytest.mark.parametrize(
    ("lines", "flags", "log"),
    [
        (99, [], ""),
        (100, [], SHORT),
        (100, ["--log_format=absl"], ABSL),
        (100, ["--baseline=text", "--confidence"], SHORT),
        (100, ["--gin_param=bleu.force = True"], ""),
        (100, ["--gin_param=evaluate.metrics = [@chrf, @paper_bleu]"], ""),
    ],
)
def test_tokenised_text_is_one_line_of_warning(tmp_path, lines, flags, log):
    (tmp_path / "text").write_text(TOKENISED * lines)
    command = ("evaluate", [*SCORE, *flags], "")
    (outcome,) = outcomes_of([command], tmp_path, WITHOUT_TENSORFLOW)
    assert outcome.status == 0
    assert re.fullmatch(log, outcome.err), outcome.err


def test_the_package_runs_its_commands(tmp_path):
    commands = [("import_t2t", ["--help"], "")]
    commands += [("__main__", [name, "--help"], "") for name in ("import_t2t", "import-t2t")]
    commands += [(module, ["--version"], "") for module in ("import_t2t", "__main__")]
    outcomes = outcomes_of(commands, tmp_path, WITHOUT_TENSORFLOW)
    assert {outcome.status for outcome in outcomes} == {0}
    *helps, version, of_package = (outcome.out for outcome in outcomes)
    flags, *others = ([one for one in text.split("\n") if one[:2] == "  "] for text in helps)
    assert "  --vocabulary" in "\n".join(flags)
    assert others == [flags, flags]
    assert version == of_package != ""


def test_what_tensorflow_writes_as_it_is_imported_is_left_out(tmp_path, monkeypatch, capfd):
    (tmp_path / "tensorflow.py").write_text("import os\nos.write(2, b'no GPU')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    del sys.modules["tensorflow"]
    import_tensorflow()
    os.write(2, b"later")
    assert capfd.readouterr().err == "later"
