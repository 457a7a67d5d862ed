"""The script that counts hard words in translations: kept ones, and only those."""

import runpy
from pathlib import Path

SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "scripts/hard_lines.py"))


def test_a_word_is_kept_where_it_stands_unchanged():
    lines = SCRIPT["hard_lines"](["A man sits (outside)."] * 60)
    assert len(lines) == 50
    for line in lines:
        assert line.word in line.text
        assert line.is_kept(line.text)
        assert not line.is_kept(f"see {line.word}0" if line.word else line.text.title())
