"""A disk that gets full while TensorFlow writes to it."""

import re

import pytest

from tests.commands import said_by
from tests.faults.full_disk import can_be_made

pytestmark = pytest.mark.long


@pytest.mark.skipif(not can_be_made(), reason="wants the right to mount a disk")
def test_a_full_disk_is_an_error_and_nothing_is_lost():
    error, last = said_by("tests.faults.full_disk", "--fills=1").splitlines()
    assert re.match(r"trainer: \w+: status 2, error: cannot write the checkpoint model/", error)
    assert re.search(r"/step-\d+ \([^{}]*; No space left on device\): make room or ", error)
    assert last == "1 full disks: ended in the bytes of a run with room"
