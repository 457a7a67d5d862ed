"""What a message may become, and how inputs are read from it."""

from contextlib import suppress
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from tensorflow.core.framework.tensor_pb2 import TensorProto
from tensorflow_serving.apis.predict_pb2 import PredictRequest

from t2t_repro.serving.proto_tensors import chosen_outputs, read_inputs, read_message
from t2t_repro.serving.request_error import RequestError
from t2t_repro.serving.signature import RequestLimits, TensorSpec

SPECS = {"text": TensorSpec(tf.string, (None,)), "ids": TensorSpec(tf.int32, (None, None))}
LIMITS = RequestLimits(rows=8, bytes=200)


class Takes:
    """A signature's inputs and outputs."""

    outputs = dict.fromkeys(["a", "b"])

    def spec(self, name):
        return SPECS[name]


TAKES: Any = Takes()


def request(name, tensor):
    message = PredictRequest()
    message.inputs[name].CopyFrom(tensor)
    return message


def read(name, tensor):
    return read_inputs(request(name, tensor), TAKES, LIMITS)[name]


def shaped(tensor, *shape):
    for size in shape:
        tensor.tensor_shape.dim.add(size=size)
    return tensor


def refused(name, tensor):
    with pytest.raises(RequestError) as error:
        read(name, tensor)
    assert error.value.code.name == "INVALID_ARGUMENT"
    return str(error.value)


@given(st.lists(st.binary(max_size=20), min_size=1, max_size=8))
def test_texts_are_those_of_tensorflow(texts):
    assert read("text", tf.make_tensor_proto(texts, tf.string)).tolist() == texts


@given(st.lists(st.lists(st.integers(-9, 9), min_size=3, max_size=3), max_size=8))
def test_ids_are_those_of_tensorflow(rows):
    ids = np.array(rows, np.int32).reshape(-1, 3)
    np.testing.assert_array_equal(read("ids", tf.make_tensor_proto(ids)), ids)


def test_the_last_value_stands_for_those_that_are_left_out():
    text, ids = tf.string.as_datatype_enum, tf.int32.as_datatype_enum
    repeated = shaped(TensorProto(dtype=text, string_val=[b"a", b"b"]), 4)
    assert read("text", repeated).tolist() == [b"a", b"b", b"b", b"b"]
    repeated = shaped(TensorProto(dtype=ids, int_val=[5]), 2, 3)
    assert read("ids", repeated).tolist() == [[5, 5, 5], [5, 5, 5]]


def test_what_a_message_becomes_is_limited():
    text, ids = tf.string.as_datatype_enum, tf.int32.as_datatype_enum
    long = shaped(TensorProto(dtype=text, string_val=[b"x" * 100]), 4)
    assert refused("text", long) == "input text becomes 300 bytes, expected 200 at most"
    assert "becomes 204 bytes" in refused("ids", shaped(TensorProto(dtype=ids, int_val=[5]), 1, 51))
    assert "Task size 9" in refused("text", tf.make_tensor_proto([b""] * 9))
    assert "has shape" in refused("ids", shaped(TensorProto(dtype=ids), *[1] * 10_000))
    assert "no definite shape" in refused("ids", shaped(TensorProto(dtype=ids), -1, 5))


@pytest.mark.parametrize("dtype", [*range(30), 101, 2**31 - 1])
def test_another_type_is_named(dtype):
    if dtype != tf.string.as_datatype_enum:
        message = refused("text", shaped(TensorProto(dtype=dtype), 1))
        assert "input text holds" in message


def test_outputs_are_asked_for_once():
    message = PredictRequest(output_filter=["b"])
    assert list(chosen_outputs(message, TAKES)) == ["b"]
    assert list(chosen_outputs(PredictRequest(), TAKES)) == ["a", "b"]
    for wrong in (["a", "a"], ["c"], ["a", "b", "a"]):
        with pytest.raises(RequestError, match="output"):
            chosen_outputs(PredictRequest(output_filter=wrong), TAKES)


@given(st.binary(max_size=60))
def test_bytes_are_a_message_or_refused(content):
    with suppress(RequestError):
        assert isinstance(read_message(PredictRequest, content), PredictRequest)


def test_what_is_no_message_is_named():
    with pytest.raises(RequestError, match="is no tensorflow"):
        read_message(PredictRequest, b"\xff" * 9)
