"""The client's command line against a server, and its retries against one that fails."""

import os
import pty
import subprocess
import sys
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import pytest

from t2t_repro.errors import UserError
from t2t_repro.serving.load_test import run_load_test
from t2t_repro.serving.remote_translator import Address, RemoteTranslator, TryAgainError
from t2t_repro.serving.rest_predictor import RestPredictor
from tests.decoding.random_translator import ODD_LINES

LINES = [line for line in ODD_LINES if len(line) < 100 and line != "\t\r"]
TEXT = "".join(f"{line}\n" for line in LINES * 3)


def client(*flags, text=TEXT, **stdin):
    return subprocess.run(
        [sys.executable, "-m", "t2t_repro.client", *flags],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        timeout=100,
        check=False,
        **(stdin or {"input": text.encode()}),
    )


def address(server):
    return (f"--server={server.rest}", "--model_name=made")


def test_a_line_comes_back_for_every_line_in_order(server, translator):
    done = client(*address(server), "--batch_size=4", "--version=3")
    assert done.returncode == 0, done.stderr
    expected = [found[0].text for found in translator.translate(LINES)]
    assert done.stdout.decode().split("\n") == [*expected * 3, ""]
    over_grpc = (f"--server={server.grpc}", "--model_name=made", "--protocol=grpc")
    assert client(*over_grpc).stdout == done.stdout


def test_several_translations_with_scores(server, translator):
    done = client(*address(server), "--n_best=4", "--scores", text="the red bird\n\na ⁇ b")
    rows = [line.split("\t") for line in done.stdout.decode().splitlines()]
    expected = [
        [str(number), f"{score:.3f}", text]
        for number, found in enumerate(translator.translate(["the red bird", "", "a ⁇ b"], 4), 1)
        for text, score in found
    ]
    assert [[number, f"{float(score):.3f}", text] for number, score, text in rows] == expected
    assert len(rows) > 4


def test_a_sentence_that_is_too_long_is_named(server):
    done = client(*address(server), text="a\n" + "a river " * 99)
    assert b"line 2: only its beginning was translated" in done.stderr
    assert b"line 1:" not in done.stderr


def test_a_model_that_is_not_served_is_named_over_grpc_too(server):
    done = client(f"--server={server.grpc}", "--model_name=other", "--protocol=grpc")
    assert done.returncode == 2
    assert b"serves no --model_name=other (Servable not found" in done.stderr


def test_nothing_in_nothing_out(server):
    done = client(*address(server), text="")
    assert (done.returncode, done.stdout) == (0, b"")


def test_what_is_typed_at_a_terminal_is_translated_to_a_file(tmp_path):
    terminal, typed = pty.openpty()
    os.write(terminal, b"\x04")
    client(f"--output={tmp_path / 'nothing'}", stdin=typed)
    assert (tmp_path / "nothing").read_bytes() == b""


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--model_name=other"], "serves no --model_name=other (Servable not found"),
        (["--version=7"], "serves no --model_name=made, --version=7 (Servable not found"),
        (["--n_best=5"], "--n_best=5: the model gives 4 translations at most"),
        (["--batch_size=65"], "larger than maximum input batch size 64"),
        (["--timeout=0.001"], "no answer within --timeout=0.001 s"),
        (["--server=127.0.0.1:9", "--retries=1"], "127.0.0.1:9 cannot be reached"),
        (["--server=a b"], "--server=a b: "),
    ],
)
def test_what_is_wrong_is_one_line(server, flags, message):
    done = client(*address(server), *flags, text="a river\n" * 65)
    (line,) = done.stderr.decode().splitlines()
    assert done.returncode == 2
    assert line.startswith("error: ")
    assert message in line
    assert done.stdout == b""


def test_a_port_that_speaks_something_else(server):
    done = client(f"--server={server.grpc}", "--model_name=made", "--retries=0", text="a")
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith(f"error: --server={server.grpc} ")


def test_a_load_test_says_how_fast_and_that_nothing_is_lost(server):
    done = client(*address(server), "--load_test=100", "--concurrency=16")
    assert done.returncode == 0, done.stderr
    counts, speed = done.stdout.decode().splitlines()
    assert counts == "100 requests, 16 at a time: 100 answered, 0 lost, 0 mixed up"
    assert " requests/s; latency in ms: p50 " in speed


def test_a_load_test_finds_what_is_lost_or_mixed_up():
    asked = []

    def translate(sentence):
        asked.append(sentence)
        if len(asked) == 9:
            raise UserError("lost")
        return "b" if len(asked) in (10, 11) else sentence.upper()

    report = run_load_test(translate, ["a", "c", "e"], requests=12, concurrency=1)
    assert asked == ["a", "c", "e", *"ace" * 4]
    assert (len(report.latencies), list(report.failures), report.mixed_up) == (11, ["lost"], 2)
    report = report._replace(latencies=[float(i) for i in range(1, 201)])
    assert [report.percentile(p) for p in (50, 90, 99, 100)] == [100.0, 180.0, 198.0, 200.0]
    with pytest.raises(UserError, match="no sentence"):
        run_load_test(translate, [], 1, 1)


def fails(times, error):
    """Makes requests of which the first ones fail."""
    outputs = {"translation": ["b"], "score": [-1.0], "truncated": [False]}

    def predict(signature, sentences):
        predictor.count += 1
        if predictor.count <= times:
            raise error
        return outputs

    predictor = SimpleNamespace(predict=predict, count=0)
    return predictor


def test_what_may_pass_is_tried_again(monkeypatch):
    waits: list[float] = []
    monkeypatch.setattr("tenacity.nap.time.sleep", waits.append)
    predictor = fails(3, TryAgainError("busy"))
    ((found, truncated),) = RemoteTranslator(predictor, retries=3).translate(["a"])
    assert (found, truncated) == ([("b", -1.0)], False)
    assert len(waits) == 3
    predictor = fails(4, TryAgainError("busy"))
    with pytest.raises(UserError, match="busy"):
        RemoteTranslator(predictor, retries=3).translate(["a"])
    predictor = fails(1, UserError("no such model"))
    with pytest.raises(UserError, match="no such model"):
        RemoteTranslator(predictor, retries=3).translate(["a"])
    assert predictor.count == 1


@contextmanager
def proxy(statuses):
    """An HTTP server that gives these answers, one after the other, with a page that is no JSON."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_error(statuses.pop(0))

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_busy_proxy_is_tried_again_and_another_port_is_not(monkeypatch):
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda _: None)
    statuses = [429, 502, 503, 404, 500]
    with proxy(statuses) as server:
        predictor = RestPredictor(Address(server, "made", None, 60.0), 1)
        for status in (404, 500):
            with pytest.raises(UserError, match=f"status {status} and no JSON"):
                RemoteTranslator(predictor, retries=9).translate(["a"])
    assert statuses == []


def test_an_answer_of_another_kind_of_model_is_an_error():
    predictor = SimpleNamespace(predict=lambda *_: {"classes": [1]})
    with pytest.raises(UserError, match=r"answered \['classes'\], expected translation"):
        RemoteTranslator(predictor, retries=0).translate(["a"])
