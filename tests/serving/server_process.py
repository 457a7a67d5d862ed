"""The server as a process of its own, and what speaks to it."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

import grpc
import tensorflow as tf
from tensorflow_serving.apis.predict_pb2 import PredictRequest
from tensorflow_serving.apis.prediction_service_pb2_grpc import PredictionServiceStub

from tests.processes import assert_only_our_lines

JSON = {"Content-Type": "application/json"}
PREDICT = "/v1/models/made:predict"


class Server:
    """A server that has started.

    Attributes:
        rest: "127.0.0.1:<port>" for REST.
        grpc: the same for gRPC.
        process: of the server.
    """

    def __init__(self, process):
        self.process = process
        self._log = []
        self._changed = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()
        self.rest = self.await_log(r"REST and a page: http://([\d.:]+)/")
        self.grpc = self.await_log(r"gRPC: ([\d.:]+)$")

    def _read(self):
        for line in self.process.stderr:
            with self._changed:
                self._log.append(line.rstrip())
                self._changed.notify_all()
        with self._changed:
            self._log.append("the end")
            self._changed.notify_all()

    def log(self):
        with self._changed:
            return list(self._log)

    def await_log(self, pattern):
        """Waits for a line of the log that matches, and returns its first group."""

        def found():
            matches = [match for line in self._log if (match := re.search(pattern, line))]
            return matches[0] if matches else self._log[-1:] == ["the end"]

        with self._changed:
            match = self._changed.wait_for(found, timeout=300)
        assert isinstance(match, re.Match), "\n".join(self._log)
        return match[1] if match.groups() else match[0]

    def request(self, method, path, body=None, headers=None):
        """Status and JSON of an answer, on a connection of its own."""
        connection = HTTPConnection(self.rest, timeout=60)
        connection.request(method, path, body, {**JSON, **(headers or {})})
        response = connection.getresponse()
        answer = response.status, json.loads(response.read())
        connection.close()
        return answer

    def predict(self, document, path=PREDICT):
        return self.request("POST", path, json.dumps(document))

    def connect(self):
        """A connection to REST."""
        host, port = self.rest.split(":")
        return socket.create_connection((host, int(port)), timeout=60)

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)


@contextmanager
def server_process(export_dir, *flags) -> Iterator[Server]:
    """A server of the model "made"; it must end with status 0."""
    ports = ("--rest_port=0", "--grpc_port=0")
    command = [sys.executable, "-m", "t2t_repro.serve", "--model_name=made", *ports, *flags]
    with subprocess.Popen(
        [*command, f"--export_dir={export_dir}"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    ) as process:
        try:
            server = Server(process)
            yield server
            if process.poll() is None:
                server.terminate()
            assert process.wait(60) == 0, "\n".join(server.log())
            server.await_log("the end")
            assert_only_our_lines("\n".join(server.log()[:-1]))
        finally:
            process.kill()


def post(body: bytes, length: int | None = None) -> bytes:
    """The bytes of a request for a prediction, of a length that may be more than there is."""
    head = (
        f"POST {PREDICT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {length or len(body)}\r\n\r\n"
    )
    return head.encode() + body


def predict_request(signature="", version=None, name="made", **inputs):
    request = PredictRequest()
    request.model_spec.name = name
    request.model_spec.signature_name = signature
    if version is not None:
        request.model_spec.version.value = version
    for key, value in inputs.items():
        request.inputs[key].CopyFrom(tf.make_tensor_proto(value))
    return request


@contextmanager
def predictions(server):
    with grpc.insecure_channel(server.grpc) as channel:
        yield PredictionServiceStub(channel)
