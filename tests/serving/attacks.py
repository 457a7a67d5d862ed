"""Requests that would stop a server, or have it work for nobody.

    python -m tests.serving.attacks --export_dir=runs/quickstart/servable --requests=20000

makes them all of a server of that model, while bad versions appear, with its health and memory
watched; then many ordinary requests. Prints what was seen; status 1 where a promise is broken.
"""

import argparse
import json
import random
import re
import shutil
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

import grpc
import tensorflow as tf
from tensorflow.core.framework.tensor_pb2 import TensorProto
from tensorflow_serving.apis.predict_pb2 import PredictRequest

from tests.serving.bad_versions import BAD_VERSIONS, add, copy_of
from tests.serving.server_process import (
    JSON,
    PREDICT,
    Server,
    post,
    predict_request,
    server_process,
)
from tests.serving.watched import watched

METHODS = [
    "/tensorflow.serving.PredictionService/Predict",
    "/tensorflow.serving.PredictionService/GetModelMetadata",
    "/tensorflow.serving.ModelService/GetModelStatus",
    "/grpc.health.v1.Health/Check",
]


@contextmanager
def raw_call(server: Server, method: str) -> Iterator[Callable[..., bytes]]:
    """A method of gRPC that takes and gives bytes."""
    with grpc.insecure_channel(server.grpc) as channel:
        yield channel.unary_unary(method)


def grpc_code(server: Server, message: bytes, method: str = METHODS[0], timeout: float = 60) -> str:
    """The status of an answer over gRPC."""
    with raw_call(server, method) as call:
        try:
            call(message, timeout=timeout)
        except grpc.RpcError as error:
            return error.code().name
    return "OK"


def many_filters() -> bytes:
    """Outputs that are asked for 580,000 times."""
    request = predict_request(source=["a"])
    request.output_filter.extend(["score"] * 580_000)
    return request.SerializeToString()


def repeated(signature: str, name: str, tensor: TensorProto, *shape: int) -> bytes:
    """A tensor whose shape says that its last value stands for many."""
    for size in shape:
        tensor.tensor_shape.dim.add(size=size)
    request = PredictRequest()
    request.model_spec.name = "made"
    request.model_spec.signature_name = signature
    request.inputs[name].CopyFrom(tensor)
    return request.SerializeToString()


def _tensor(dtype: int, **values: object) -> TensorProto:
    return TensorProto(dtype=dtype, **values)


def large_requests() -> dict[str, bytes]:
    """Small messages that become large, and large ones that ask for nothing new."""
    text, number = tf.string.as_datatype_enum, tf.int32.as_datatype_enum
    return {
        "580,000 filters": many_filters(),
        "a text 128 times": repeated(
            "", "source", _tensor(text, string_val=[b"a river " * 60_000]), 128
        ),
        "ids of one value": repeated(
            "token_ids", "source_ids", _tensor(number, int_val=[7]), 128, 32768
        ),
        "a million texts": repeated(
            "", "source", _tensor(text, string_val=[b""] * 1_000_000), 1_000_000
        ),
        "a row of rows": repeated("token_ids", "source_ids", _tensor(number), *[1] * 100_000),
        "half a row": repeated("token_ids", "source_ids", _tensor(number, int_val=[7]), -1, 5),
        "0 columns of 2 ** 62": repeated("token_ids", "source_ids", _tensor(number), 1, 2**62),
    }


def strange_types() -> dict[str, bytes]:
    """Tensors of types that no client may send."""
    types = [tf.resource.as_datatype_enum, tf.variant.as_datatype_enum, 0, 99, 101, 2**31 - 1]
    return {f"type {t}": repeated("", "source", _tensor(t), 1) for t in types}


def garbage(count: int) -> list[bytes]:
    """Bytes that are no message."""
    generator = random.Random(5)
    return [b"\xff" * 50, b"\x0a", *(generator.randbytes(n % 60 + 1) for n in range(count))]


def nested(depth: int) -> bytes:
    """JSON with so many brackets."""
    return b'{"inputs": ' + b"[" * depth + b"]" * depth + b"}"


def large_bodies() -> dict[str, bytes]:
    """JSON that takes long to read."""
    return {
        "a million texts": json.dumps({"inputs": ["a"] * 700_000}).encode(),
        "a million ids": json.dumps(
            {"signature_name": "token_ids", "inputs": [[1] * 1_300_000]}
        ).encode(),
        "a million brackets": nested(2_000_000),
        "a long number": b'{"inputs": ' + b"1" * 4_000_000 + b"}",
        "a million keys": json.dumps({"inputs": {str(n): 0 for n in range(300_000)}}).encode(),
    }


def half_closed(server: Server, body: bytes) -> bytes:
    """The answer that a client gets which has closed its sending half."""
    with server.connect() as connection:
        connection.sendall(post(body))
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while part := connection.recv(2**16):
            answer += part
    # What says that it is under way is no answer.
    return re.sub(rb"^(HTTP/1.1 102 .*\r\n\r\n)+", b"", answer)


def hang_up(server: Server, body: bytes) -> None:
    """Asks, and does not wait for the answer."""
    with server.connect() as connection:
        connection.sendall(post(body))
        time.sleep(0.05)


def attack(server: Server) -> dict[str, object]:
    """Makes every attack once: what was answered."""
    found: dict[str, object] = {}
    for name, message in {**large_requests(), **strange_types()}.items():
        found[f"gRPC, {name}"] = grpc_code(server, message)
    for method in METHODS:
        codes = {grpc_code(server, message, method) for message in garbage(20)}
        found[f"gRPC, garbage for {method}"] = sorted(codes)
    long = predict_request(source=["a river and a cloud " * 500] * 128).SerializeToString()
    found["gRPC, a deadline"] = grpc_code(server, long, timeout=0.2)
    for name, body in large_bodies().items():
        found[f"REST, {name}"] = server.request("POST", PREDICT, body)[0]
    depths = [2, 9, 30, 63, 64, 65, 66, 100, 500, 900, 990, 1000, 3000]
    answers = {server.request("POST", PREDICT, nested(depth))[0] for depth in depths}
    found["REST, brackets"] = sorted(answers)
    body = json.dumps({"instances": ["a river"] * 64}).encode()
    for host in ("attacker.example", "localhost.attacker.example", "127.0.0.1.example:80", "["):
        found[f"REST, Host {host}"] = server.request("POST", PREDICT, body, {"Host": host})[0]
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        answer = server.request("POST", PREDICT, body, {"Content-Type": kind})
        found[f"REST, {kind}"] = answer[0]
    found["REST, half closed"] = half_closed(server, body).split(b"\r\n")[0].decode()
    for _ in range(50):
        hang_up(server, body)
    return found


def expected() -> dict[str, object]:
    """What `attack` has to find."""
    refused = "INVALID_ARGUMENT"
    return {
        **{f"gRPC, {name}": refused for name in {**large_requests(), **strange_types()}},
        **{f"gRPC, garbage for {method}": [refused] for method in METHODS},
        "gRPC, a deadline": "DEADLINE_EXCEEDED",
        **{f"REST, {name}": 400 for name in large_bodies()},
        "REST, brackets": [400],
        "REST, Host attacker.example": 421,
        "REST, Host localhost.attacker.example": 421,
        "REST, Host 127.0.0.1.example:80": 421,
        "REST, Host [": 421,
        "REST, text/plain": 415,
        "REST, application/x-www-form-urlencoded": 415,
        "REST, multipart/form-data": 415,
        "REST, half closed": "HTTP/1.1 200 OK",
    }


def many_requests(server: Server, count: int, lines: list[str]) -> int:
    """Asks for translations, eight at a time; how many were not answered."""
    local = threading.local()

    def ask(number: int) -> bool:
        if not hasattr(local, "connection"):
            local.connection = HTTPConnection(server.rest, timeout=60)
        body = json.dumps({"instances": [lines[number % len(lines)]]})
        local.connection.request("POST", PREDICT, body, JSON)
        response = local.connection.getresponse()
        response.read()
        return response.status == 200

    with ThreadPoolExecutor(8) as pool:
        return count - sum(pool.map(ask, range(count)))


def main() -> int:
    """Attacks a server of a given model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--export_dir", type=Path, required=True)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--lines", type=Path, help="sentences to translate, one a line")
    options = parser.parse_args()
    lines = (
        options.lines.read_text("utf-8").splitlines() if options.lines else ["a b c", "a", "b a"]
    )
    version = max(
        (p for p in options.export_dir.iterdir() if p.name.isdecimal()), key=lambda p: int(p.name)
    )
    limits = ("--poll_seconds=0.2", "--load_seconds=20", "--memory_gb=3")
    broken = []
    with tempfile.TemporaryDirectory() as folder:
        export_dir = Path(folder)
        add(export_dir, 1, copy_of(version))
        with server_process(export_dir, *limits) as server:
            with watched(server) as watch:
                for number, (name, (write, _)) in enumerate(BAD_VERSIONS.items(), 2):
                    add(export_dir, number, write)
                    began = time.monotonic()
                    found = attack(server)
                    broken += [(name, k, found[k]) for k, v in expected().items() if found[k] != v]
                    server.await_log(f"version {number} is refused, version 1 goes on: .")
                    shutil.rmtree(export_dir / str(number))
                    print(f"{name}, and all requests: {time.monotonic() - began:.1f} s", flush=True)
            print("under attack:", watch.report._replace(all_mb=[max(watch.report.all_mb)]))
            with watched(server) as calm:
                lost = many_requests(server, options.requests, lines)
            tenth = max(len(calm.report.all_mb) // 10, 1)
            first, last = (
                statistics.mean(part)
                for part in (calm.report.all_mb[tenth : 2 * tenth], calm.report.all_mb[-tenth:])
            )
            print(f"{options.requests} requests: {lost} lost; {calm.report._replace(all_mb=[])}")
            print(f"resident memory: {first:.0f} MiB in the second tenth, {last:.0f} in the last")
            tracebacks = [line for line in server.log() if "Traceback" in line]
    print("broken:", broken, tracebacks)
    slow = max(watch.report.slowest, calm.report.slowest) > 1
    return int(bool(broken or tracebacks or lost or slow or watch.report.unhealthy))


if __name__ == "__main__":
    sys.exit(main())
