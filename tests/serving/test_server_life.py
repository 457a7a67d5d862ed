"""A server from its first version to SIGTERM: newer versions, broken ones, an end under load."""

import json
import shutil
import threading
import time
from http.client import HTTPConnection

import grpc
import pytest
import tensorflow as tf
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from tests.serving.server_process import JSON, predict_request, predictions, server_process

pytestmark = pytest.mark.long

LINE = "the red stone and a cloud"
BODY = json.dumps({"instances": [LINE]})


class Client(threading.Thread):
    """Asks until it is refused.

    Attributes:
        pause: seconds between an answer and the next request.
        answers: status and text of each.
        end: what ended it.
    """

    def __init__(self, server):
        super().__init__()
        self.pause = 0.5
        self.answers = []
        self.end = ""
        self._server = server

    def ask(self):
        """Makes a request, and keeps its answer or what ended this."""
        raise NotImplementedError

    def run(self):
        while not self.end:
            time.sleep(self.pause)
            try:
                self.ask()
            except Exception as error:
                self.end = repr(error)


class RestClient(Client):
    def __init__(self, server):
        super().__init__(server)
        self._connection = HTTPConnection(server.rest, timeout=60)

    def ask(self):
        try:
            self._connection.request("POST", "/v1/models/made:predict", BODY, JSON)
        except ConnectionRefusedError:
            self.end = "refused"
            return
        response = self._connection.getresponse()
        document = json.loads(response.read())
        if response.status == 503:
            self.end = "refused"
            return
        self.answers.append((response.status, document["predictions"][0]["translation"]))


class GrpcClient(Client):
    def run(self):
        with predictions(self._server) as self._stub:
            super().run()

    def ask(self):
        try:
            response = self._stub.Predict(predict_request(source=[LINE]))
        except grpc.RpcError as error:
            self.end = "refused" if error.code().name == "UNAVAILABLE" else repr(error)
            return
        text = tf.make_ndarray(response.outputs["translation"])[0].decode()
        self.answers.append((200, text))


def without_warm_up(version):
    """That takes its time, and is seen to work where it fails."""
    shutil.rmtree(version / "assets.extra")


def corrupt(version):
    (version / "variables" / "variables.index").write_bytes(b"no weights")


def fail_to_warm_up(version):
    """Takes away a signature that a warm-up request is for."""
    path = version / "saved_model.pb"
    saved = SavedModel.FromString(path.read_bytes())
    del saved.meta_graphs[0].signature_def["nbest"]
    path.write_bytes(saved.SerializeToString())


def versions(server):
    document = server.request("GET", "/v1/models/made")[1]
    return {int(v["version"]): v["state"] for v in document["model_version_status"]}


def test_versions_change_and_the_end_comes_under_load(export_dir, tmp_path):
    def add(number, change):
        aside = tmp_path / f".{number}"
        shutil.copytree(export_dir / "3", aside)
        change(aside)
        aside.rename(tmp_path / str(number))

    add(3, without_warm_up)
    with server_process(tmp_path, "--poll_seconds=0.2") as server:
        status, answer = server.predict({"instances": [LINE]})
        assert status == 200
        expected = answer["predictions"][0]["translation"]
        clients = [RestClient(server) for _ in range(8)] + [GrpcClient(server) for _ in range(4)]
        for client in clients:
            client.start()

        add(4, corrupt)
        server.await_log("version 4 is refused, version 3 goes on: .")
        add(5, fail_to_warm_up)
        server.await_log("version 5 is refused, version 3 goes on: .*nbest")
        assert versions(server) == {5: "END", 4: "END", 3: "AVAILABLE"}
        add(10, without_warm_up)
        server.await_log("serving version 10 of made")
        shutil.rmtree(tmp_path / "3")
        assert versions(server)[10] == "AVAILABLE"
        assert server.predict({"instances": [LINE]}, "/v1/models/made/versions/3:predict")[0] == 404
        before = [len(client.answers) for client in clients]
        for client in clients:
            client.pause = 0.0
        time.sleep(1)

        server.terminate()
        for client in clients:
            client.join(60)
        assert {client.end for client in clients} == {"refused"}
        assert {answer for client in clients for answer in client.answers} == {(200, expected)}
        assert all(len(c.answers) > count for c, count in zip(clients, before, strict=True))
        assert server.process.wait(60) == 0
        refused = [line for line in server.log() if "is refused" in line]
        assert len(refused) == 2
        assert not [line for line in server.log() if "Traceback" in line]
