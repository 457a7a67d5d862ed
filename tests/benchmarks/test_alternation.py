"""What measured peers become in the results."""

import json

import pytest

from alternation import MATMUL, Measurement, write_results

ROUND = {"amount": 8.0, "seconds": 2.0, "cpu_seconds": 2.0, "peak_mib": 1, "peak_device_mib": 0}


def test_a_share_is_that_of_the_matrix_products(tmp_path):
    measured = [Measurement("ours", {}, [ROUND]), Measurement(MATMUL, {}, [ROUND])]
    write_results(tmp_path / "results", measured, operations=0.5, labels={"case": "c"})
    (row,) = map(json.loads, (tmp_path / "results").read_text().splitlines())
    assert (row["peer"], row["case"], row["value"]) == ("ours", "c", 4.0)
    assert row["share_of_matmul"] == 0.5


@pytest.mark.parametrize("peers", [["ours", "theirs"], []])
def test_no_peer_stands_for_matrix_products_that_could_not_be_measured(tmp_path, peers):
    measured = [Measurement(peer, {}, [ROUND]) for peer in peers]
    with pytest.raises(SystemExit, match="error: the rate of matrix products could not be"):
        write_results(tmp_path / "results", measured, 0.5, {})
    assert not (tmp_path / "results").exists()
