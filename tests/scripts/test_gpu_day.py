"""The measurements for a GPU, tried on the CPU with small models."""

import json

import pytest

from tests.processes import output_of


@pytest.mark.slow
def test_every_case_gives_a_line_and_the_losses_are_those_of_the_formulas(tmp_path):
    output = tmp_path / "gpu.jsonl"
    output_of("scripts/gpu_day.py", "--tiny", f"--output={output}")
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    assert not [line for line in lines if "error" in line]
    assert max(line["greatest_difference"] for line in lines[1:5]) < 1e-4
    assert all(line["tokens_per_second"] > 0 for line in lines[5:])
    assert len(lines) == 13
