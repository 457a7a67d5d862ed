"""The server's two interfaces against the SavedModel called directly, and against bad clients."""

import base64
import json
import random
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from typing import Any

import grpc
import numpy as np
import pytest
import tensorflow as tf
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tensorflow_serving.apis.get_model_metadata_pb2 import GetModelMetadataRequest, SignatureDefMap
from tensorflow_serving.apis.get_model_status_pb2 import GetModelStatusRequest
from tensorflow_serving.apis.model_service_pb2_grpc import ModelServiceStub

from tests.decoding.random_translator import ODD_LINES
from tests.serving.server_process import JSON, PREDICT, post, predict_request, predictions

LINES = [line for line in ODD_LINES if len(line) < 100] + ["the red stone and a cloud", "a b c d"]
IDS = [[7, 300, 9, 1], [7, 290, 1, 0]]
INPUTS: dict[str, dict[str, Any]] = {
    "serving_default": {"source": LINES},
    "nbest": {"source": LINES},
    "token_ids": {"source_ids": IDS},
    "score": {"source": LINES, "target": LINES[::-1]},
}


@pytest.fixture(scope="module")
def expected(export_dir):
    """What the SavedModel answers to INPUTS, as JSON would have it."""
    loaded = tf.saved_model.load(str(export_dir / "3"))
    found = {}
    for name, inputs in INPUTS.items():
        outputs = loaded.signatures[name](**{k: tf.constant(v) for k, v in inputs.items()})
        found[name] = {key: as_lists(value.numpy()) for key, value in outputs.items()}
    return found


def as_lists(array):
    if array.dtype == object:
        array = np.array([text.decode() for text in array.flat], object).reshape(array.shape)
    return array.tolist()


def assert_same(found, expected):
    """Texts and integers alike, scores as close as batches allow."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if np.asarray(value).dtype.kind == "f":
            np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-5)
        else:
            assert found[name] == value, name


@pytest.mark.parametrize("signature", INPUTS)
def test_both_forms_of_rest_answer_as_the_saved_model(server, expected, signature):
    inputs = INPUTS[signature]
    named = {"signature_name": signature}
    rows = [dict(zip(inputs, row, strict=True)) for row in zip(*inputs.values(), strict=True)]
    asked = [{**named, "inputs": inputs}, {**named, "instances": rows}]
    if len(inputs) == 1:
        (value,) = inputs.values()
        asked += [{**named, "inputs": value}, {**named, "instances": value}]
    for document in asked:
        status, answer = server.predict(document)
        assert status == 200, answer
        outputs = answer.get("outputs")
        if "instances" in document:
            predictions = answer["predictions"]
            assert len(predictions) == len(rows)
            outputs = {name: [row[name] for row in predictions] for name in predictions[0]}
        assert_same(outputs, expected[signature])


@pytest.mark.parametrize("signature", INPUTS)
def test_grpc_answers_as_the_saved_model(server, expected, signature):
    with predictions(server) as stub:
        response = stub.Predict(predict_request(signature, 3, **INPUTS[signature]))
    assert response.model_spec.version.value == 3
    assert response.model_spec.signature_name == signature
    outputs = {key: as_lists(tf.make_ndarray(value)) for key, value in response.outputs.items()}
    assert_same(outputs, expected[signature])


def test_outputs_can_be_chosen_and_the_default_signature_left_out(server, expected):
    with predictions(server) as stub:
        request = predict_request(source=LINES)
        request.output_filter.append("translation")
        response = stub.Predict(request)
    (output,) = response.outputs.values()
    assert as_lists(tf.make_ndarray(output)) == expected["serving_default"]["translation"]
    assert server.predict({"instances": LINES})[0] == 200


def test_bytes_that_are_no_text_and_no_sentence_at_all(server):
    encoded = {"b64": base64.b64encode(b"a \xff tree").decode()}
    status, answer = server.predict({"instances": [encoded, "a \ufffd tree"]})
    assert status == 200
    first, second = answer["predictions"]
    assert first["translation"] == second["translation"]
    assert server.predict({"inputs": []}) == (
        200,
        {"outputs": {"translation": [], "score": [], "truncated": []}},
    )
    with predictions(server) as stub:
        empty = predict_request(source=np.zeros([0], object))
        assert tf.make_ndarray(stub.Predict(empty).outputs["score"]).shape == (0,)


def test_status_and_metadata(server, graph):
    path = "/v1/models/made"
    status = {"error_code": "OK", "error_message": ""}
    state = {"version": "3", "state": "AVAILABLE", "status": status}
    for asked in (path, path + "/versions/3"):
        assert server.request("GET", asked) == (200, {"model_version_status": [state]})
        found, answer = server.request("GET", asked + "/metadata")
        assert found == 200
        assert answer["model_spec"] == {"name": "made", "signature_name": "", "version": "3"}
        signature = answer["metadata"]["signature_def"]["signature_def"]["nbest"]
        assert signature["inputs"]["source"]["dtype"] == "DT_STRING"
    assert server.request("GET", "/health") == (200, {"status": "ok"})
    with predictions(server) as stub, grpc.insecure_channel(server.grpc) as channel:
        request = GetModelMetadataRequest(metadata_field=["signature_def"])
        request.model_spec.name = "made"
        packed = stub.GetModelMetadata(request).metadata["signature_def"]
        definitions = SignatureDefMap()
        assert packed.Unpack(definitions)
        public = {name for name in graph.signature_def if not name.startswith("__")}
        assert set(definitions.signature_def) == public
        asked = GetModelStatusRequest()
        asked.model_spec.name = "made"
        (version,) = ModelServiceStub(channel).GetModelStatus(asked).model_version_status
        assert (version.version, version.state) == (3, version.AVAILABLE)
        health = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
        assert health.status == health.SERVING


NESTED = b'{"inputs": ' + b"[" * 50_000
MISTAKES = {
    "no JSON": (b'{"inputs": ["a"', 400, "JSON Parse error"),
    "no UTF-8": (b'{"inputs": ["\xff"]}', 400, "JSON Parse error"),
    "nothing": (b"", 400, "JSON Parse error"),
    "nested deeply": (NESTED, 400, "JSON Parse error"),
    "no object": (b"[1]", 400, "Is not object"),
    "neither form": (b"{}", 400, "exactly one of the keys"),
    "both forms": (b'{"inputs": ["a"], "instances": ["a"]}', 400, "exactly one of the keys"),
    "no row": (b'{"instances": []}', 400, "one element at least"),
    "a number": (b'{"instances": ["a", 5]}', 400, "JSON Value: 5, expected type: string"),
    "no value": (b'{"instances": [null]}', 400, "JSON Value: null, expected type: string"),
    "a list too many": (b'{"instances": [["a"]]}', 400, "has shape [1, 1], expected [any]"),
    "lists in lists": (
        b'{"inputs": ' + b"[" * 70 + b"]" * 70 + b"}",
        400,
        "axes or more, expected 1",
    ),
    "a list too few": (b'{"inputs": "a"}', 400, "has shape [], expected [any]"),
    "no base64": (b'{"instances": [{"b64": "?"}]}', 400, "Unable to base64 decode"),
    "half a character": (b'{"instances": ["\\ud800"]}', 400, "surrogates not allowed"),
    "another input": (b'{"inputs": {"text": ["a"]}}', 400, "expected ['source']"),
    "rows of two kinds": (b'{"instances": [{"source": "a"}, "a"]}', 400, "element: 1"),
    "ragged": (
        b'{"signature_name": "token_ids", "inputs": [[5, 1], [5]]}',
        400,
        "not of the same shape",
    ),
    "a fraction": (
        b'{"signature_name": "token_ids", "inputs": [[5.5]]}',
        400,
        "JSON Value: 5.5, expected type: int32",
    ),
    "too large a number": (
        b'{"signature_name": "token_ids", "inputs": [[3000000000]]}',
        400,
        "expected type: int32",
    ),
    "unequal columns": (
        b'{"signature_name": "score", "inputs": {"source": ["a"], "target": ["a", "b"]}}',
        400,
        "equally many rows",
    ),
    "a plain list for two inputs": (
        b'{"signature_name": "score", "instances": ["a"]}',
        400,
        "objects with the keys source, target",
    ),
    "no such signature": (b'{"signature_name": "x", "inputs": []}', 400, '"x" not found'),
    "signature no name": (b'{"signature_name": 5, "inputs": []}', 400, "must be a string"),
    "too many rows": (json.dumps({"inputs": ["a"] * 65}).encode(), 400, "maximum input batch"),
    "too large": (b'{"inputs": ["' + b"a" * 600_000 + b'"]}', 413, "size 524288 exceeded"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_over_rest_is_a_status_and_an_error(server, name):
    body, status, message = MISTAKES[name]
    found, answer = server.request("POST", PREDICT, body)
    assert found == status
    assert answer.keys() == {"error"}
    assert message in answer["error"]
    assert len(answer["error"]) < 300


@pytest.mark.parametrize(
    ("method", "path", "status", "message"),
    [
        ("POST", "/v1/models/other:predict", 404, "Latest(other)"),
        ("POST", "/v1/models/made/versions/2:predict", 404, "Specific(made, 2)"),
        ("POST", f"/v1/models/made/versions/{10**30}:predict", 400, "to numeric"),
        ("GET", "/v1/models/other", 404, "any versions of model other"),
        ("GET", "/v1/models/made/versions/2", 404, "version 2 of model made"),
        ("GET", "/v1/models/other/metadata", 404, "Latest(other)"),
        ("GET", PREDICT, 400, "Malformed request: GET"),
        ("GET", "/v1/models", 400, "Malformed request"),
        ("GET", "/nowhere", 404, "Not Found"),
    ],
)
def test_an_unknown_address_is_a_status_and_an_error(server, method, path, status, message):
    found, answer = server.request(method, path, b'{"instances": ["a"]}')
    assert (found, answer.keys()) == (status, {"error"})
    assert message in answer["error"]


def huge():
    request = predict_request(source=["a"])
    request.inputs["source"].tensor_shape.dim[0].size = 10**15
    return request


def labelled():
    request = predict_request(source=["a"])
    request.model_spec.version_label = "stable"
    return request


@pytest.mark.parametrize(
    ("request_", "code", "message"),
    [
        (predict_request(name="other", source=["a"]), "NOT_FOUND", "Latest(other)"),
        (predict_request(version=2, source=["a"]), "NOT_FOUND", "Specific(made, 2)"),
        (predict_request("x", source=["a"]), "FAILED_PRECONDITION", '"x" not found'),
        (predict_request(text=["a"]), "INVALID_ARGUMENT", "expects ['source']"),
        (predict_request(source=[5]), "INVALID_ARGUMENT", "holds int32, expected string"),
        (predict_request(source="a"), "INVALID_ARGUMENT", "has shape [], expected [any]"),
        (predict_request(source=["a"] * 65), "INVALID_ARGUMENT", "maximum input batch"),
        (predict_request(source=["a" * 600_000]), "RESOURCE_EXHAUSTED", "larger than max"),
        (labelled(), "INVALID_ARGUMENT", "version label: stable"),
        (huge(), "INVALID_ARGUMENT", "maximum input batch size"),
    ],
)
def test_a_mistake_over_grpc_is_a_status(server, request_, code, message):
    with predictions(server) as stub, pytest.raises(grpc.RpcError) as error:
        stub.Predict(request_)
    assert error.value.code().name == code
    assert message in error.value.details()


def assert_lives(server):
    assert server.predict({"instances": ["a tree"]})[0] == 200


def test_a_client_that_is_slow(server):
    whole = post(b'{"instances": ["a tree"]}')
    sent = (len(whole) - 9, len(whole) - 9, 20)
    in_time, too_late, in_its_head = connections = [server.connect() for _ in sent]
    for connection, size in zip(connections, sent, strict=True):
        connection.sendall(whole[:size])
    assert_lives(server)
    in_time.sendall(whole[sent[0] :])
    assert in_time.recv(1000).startswith(b"HTTP/1.1 200")
    answer = too_late.recv(1000)
    assert answer.startswith(b"HTTP/1.1 408")
    assert b'{"error": "no whole body within 2 s"}' in answer
    assert in_its_head.recv(1000) == b""
    for connection in connections:
        connection.close()


def test_clients_that_hang_up(server):
    whole = post(json.dumps({"instances": ["a river " * 50] * 32}).encode())
    for size in (0, 20, len(whole) // 2, *[len(whole)] * 3):
        connection = server.connect()
        connection.sendall(whole[:size])
        time.sleep(0.01)
        connection.close()
    with predictions(server) as stub:
        stub.Predict.future(predict_request(source=["a river"] * 64)).cancel()
        with pytest.raises(grpc.RpcError, match="DEADLINE_EXCEEDED"):
            stub.Predict(predict_request(source=["a river"] * 64), timeout=0.001)
    assert_lives(server)
    assert not [line for line in server.log() if "Traceback" in line]


def test_no_answer_of_many_at_once_is_mixed_up(server, expected):
    """Sentences of all lengths over 24 connections, three quarters of them by REST."""
    best = dict(zip(LINES, expected["serving_default"]["translation"], strict=True))
    n_best = dict(zip(LINES, expected["nbest"]["translation"], strict=True))

    def ask_rest(seed):
        generator = random.Random(seed)
        connection = HTTPConnection(server.rest, timeout=60)
        for _ in range(9):
            lines = generator.choices(LINES, k=generator.randint(1, 5))
            signature, known = generator.choice([("serving_default", best), ("nbest", n_best)])
            body = json.dumps({"signature_name": signature, "instances": lines})
            connection.request("POST", PREDICT, body, JSON)
            answer = json.loads(connection.getresponse().read())
            found = [row["translation"] for row in answer["predictions"]]
            assert found == [known[line] for line in lines]
        connection.close()

    def ask_grpc(seed):
        generator = random.Random(seed)
        with predictions(server) as stub:
            for _ in range(9):
                lines = generator.choices(LINES, k=generator.randint(1, 5))
                response = stub.Predict(predict_request(source=lines))
                found = as_lists(tf.make_ndarray(response.outputs["translation"]))
                assert found == [best[line] for line in lines]

    with ThreadPoolExecutor(24) as pool:
        asked = [pool.submit(ask_grpc if seed % 4 == 0 else ask_rest, seed) for seed in range(24)]
    for future in asked:
        future.result()
    assert len(set(best.values())) > 5


def test_a_page_is_shown(server):
    connection = HTTPConnection(server.rest, timeout=60)
    connection.request("GET", "/")
    response = connection.getresponse()
    page = response.read().decode()
    assert response.status == 200
    assert response.headers["Content-Type"].startswith("text/html")
    assert "made" in page
    assert "{{" not in page
    assert "http" not in page.replace("http-equiv", "")
