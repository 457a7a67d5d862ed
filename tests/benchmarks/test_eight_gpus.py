"""docs/eight_gpus.md: what the script prints; the ring's formula beside a ring that is walked."""

import numpy as np
import pytest

import eight_gpus
from eight_gpus import NVLINK, PCIE, SUSTAINED, Link, models, ring, speed, step, summed
from tests.processes import CHECKOUT

BASE, BIG = models()


def test_the_page_holds_what_the_script_prints():
    page = (CHECKOUT / "docs" / "eight_gpus.md").read_text(encoding="utf-8")
    for table in eight_gpus.tables().split("\n\n"):
        assert f"\n\n{table}\n\n" in page


@pytest.mark.parametrize("gpus", [2, 3, 8])
def test_the_ring_s_seconds_are_those_of_a_ring_that_is_walked(gpus):
    """Each GPU's vector is cut into as many parts; every message goes to the next GPU alone."""
    link = Link("slow", rate=64.0, delay=0.5)
    generator = np.random.default_rng(1)
    held = generator.integers(0, 9, (gpus, gpus, 6)).astype(float)
    expected = held.sum(axis=0)
    seconds = 0.0
    for turn in range(2 * (gpus - 1)):
        is_sum = turn < gpus - 1
        # Half-way round, each GPU holds the whole sum of the part that comes after its own.
        sent = {gpu: (gpu - turn if is_sum else gpu + gpus - turn) % gpus for gpu in range(gpus)}
        messages = {gpu: held[gpu, part].copy() for gpu, part in sent.items()}
        for gpu, part in sent.items():
            after = (gpu + 1) % gpus
            held[after, part] = messages[gpu] + (held[after, part] if is_sum else 0.0)
        seconds += messages[0].nbytes / (SUSTAINED * link.rate) + link.delay
    for of_one in held:
        np.testing.assert_array_equal(of_one, expected)
    assert ring(expected.nbytes, gpus, link) == pytest.approx(seconds)


def test_one_gpu_sums_nothing_and_more_machines_take_longer():
    size = BASE.gradients()
    assert summed(size, 1) == 0.0
    assert 0.0 < summed(size, 2) < summed(size, 8) < summed(size, 16) < summed(size, 64)
    assert summed(size, 8, NVLINK) < summed(size, 8, PCIE)


def test_a_step_is_never_shorter_than_starting_its_kernels():
    assert step(BASE, 1, 1) == BASE.kernels * eight_gpus.LAUNCH
    assert step(BASE, 1, 25_000) == pytest.approx(25_000 / BASE.rate)


def test_overlap_hides_the_shorter_of_the_two():
    for model in (BASE, BIG):
        alone, together = model.alone(3125), summed(model.gradients(), 8)
        assert step(model, 8, 3125, overlapped=True) == max(alone, together)
        assert speed(model, 8, 3125, overlapped=True) > speed(model, 8, 3125)


def test_rates_that_were_measured_take_the_place_of_the_aims():
    base, big = models({"base_ende": 500_000, "big_ende": None})
    assert base.rate == 500_000
    assert big == BIG


def test_the_overhead_is_that_of_the_record():
    text = (CHECKOUT / "EXPERIMENTS.md").read_text(encoding="utf-8")
    one, eight = (
        next(float(line.split("|")[2]) for line in text.splitlines() if line.startswith(start))
        for start in ("| one device, 8 slices", "| 8 logical devices")
    )
    assert 1 / eight - 1 / one == pytest.approx(eight_gpus.STRATEGY)
