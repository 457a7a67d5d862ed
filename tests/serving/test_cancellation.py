"""Calls that are given up, several at a time."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import tensorflow as tf

from t2t_repro.serving.cancellation import Cancellation


@pytest.fixture(scope="module")
def count():
    """Counts to a number; two millions take many seconds."""

    @tf.function(input_signature=[tf.TensorSpec([], tf.int32)], autograph=False)
    def count(n):
        return {"n": tf.while_loop(lambda i: i < n, lambda i: [i + 1], [0])[0]}

    return count.get_concrete_function()


def test_of_two_calls_each_is_given_up_by_itself(count):
    """That begin at the same moment: TensorFlow's own way mixes up some of a hundred."""
    together = threading.Barrier(2)

    def call(cancellation):
        together.wait(60)
        cancellation.call(count, {"n": tf.constant(2_000_000)})

    with ThreadPoolExecutor(2) as pool:
        for _ in range(100):
            given_up = [Cancellation(), Cancellation()]
            calls = [pool.submit(call, one) for one in given_up]
            try:
                given_up[0].give_up()
                assert isinstance(calls[0].exception(30), tf.errors.CancelledError)
                assert not calls[1].done()
            finally:
                given_up[1].give_up()
            assert isinstance(calls[1].exception(30), tf.errors.CancelledError)


def test_what_is_given_up_before_it_begins_ends_at_once(count):
    cancellation = Cancellation()
    cancellation.give_up()
    began = time.monotonic()
    with pytest.raises(tf.errors.CancelledError):
        cancellation.call(count, {"n": tf.constant(2_000_000)})
    assert time.monotonic() - began < 10


def test_other_calls_cannot_be_given_up(count):
    cancellation = Cancellation()
    assert int(cancellation.call(count, {"n": tf.constant(5)})["n"]) == 5
    cancellation.give_up()
    assert int(count(n=tf.constant(6))["n"]) == 6
