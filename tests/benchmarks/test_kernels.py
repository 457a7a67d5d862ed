"""What is measured of the kernels, and what is said to be left out of it."""

import re

import kernels
from tests.processes import CHECKOUT

HELPERS = {"__init__", "gpu", "philox"}


def test_every_kernel_is_measured_or_named_as_left_out():
    (said,) = re.findall(r"Left out are\n?(.*?)\. ", kernels.__doc__ or "", re.DOTALL)
    left_out = set(re.findall(r"[a-z_]+", " ".join(re.findall(r"\((.*?)\)", said))))
    measured = {*kernels.IN_TRAINING, *kernels.IN_DECODING}
    there = {path.stem for path in (CHECKOUT / "t2t_repro" / "kernels").glob("*.py")} - HELPERS
    assert not measured & left_out
    assert measured | left_out == there


def test_what_is_measured_replaces_what_is_there():
    for module, name, formula in [*kernels.IN_TRAINING.values(), *kernels.IN_DECODING.values()]:
        assert getattr(module, name) is not formula
