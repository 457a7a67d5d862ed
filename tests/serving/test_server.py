"""The server over HTTP: served = translated, its limits, and its end."""

import asyncio
import json
import os
import re
import signal
import socket
import time
import zlib

import aiohttp
import pytest
from aiohttp.test_utils import TestClient, TestServer

from t2t_repro.decoding.sentences import translate_split
from t2t_repro.errors import UserError
from t2t_repro.serving.server import Options, Server
from tests.decoding.random_translator import ODD_LINES
from tests.serving.conftest import Held

MODEL = "/v1/models/made"
PREDICT = f"{MODEL}:predict"
LINES = [*ODD_LINES, "the red stone and a cloud"]
OPTIONS = Options(
    model_name="made",
    host="127.0.0.1",
    allowed_host=["Proxy.example"],
    allowed_origin=["https://Page.example"],
    rest_port=0,
    max_request_mb=0.1,
    client_seconds=0.5,
    max_batch_size=32,
    max_waiting=64,
    drain_seconds=60.0,
    split_sentences=False,
    source_language="en",
    max_characters=2000,
    api_key=None,
)


@pytest.fixture(scope="module")
def server(translator):
    return Server(translator, OPTIONS, [], workers=2)


def answers(server, *requests, **headers):
    """Returns status and content of the answers to (method, path, body)."""

    async def ask():
        async with TestClient(TestServer(server.application())) as client:
            return [await answer(client, *request, **headers) for request in requests]

    return asyncio.run(ask())


async def answer(client, method, path, body=None, **headers):
    async with client.request(method, path, data=body, headers=headers) as response:
        return response.status, await response.text()


def predict(server, **document):
    ((status, text),) = answers(server, ("POST", PREDICT, json.dumps(document)))
    assert status == 200, text
    return json.loads(text)


def columns(translations):
    """Texts, scores up to the rounding of another batch, and what is finished."""
    texts, scores, finished, _ = map(list, zip(*translations, strict=True))
    same = pytest.approx(scores, rel=1e-5, abs=1e-5)
    return {"translation": texts, "score": same, "finished": finished}


def test_what_is_served_is_what_is_translated(server, translator):
    expected = columns(best for best, *_ in translator.translate(LINES))
    expected["truncated"] = [len(line) > 1000 for line in LINES]
    assert predict(server, inputs=LINES) == {"outputs": expected}
    rows = predict(server, instances=LINES)["predictions"]
    assert [row["translation"] for row in rows] == expected["translation"]
    assert len({*expected["translation"]}) > 5


def test_every_signature_is_served(server, translator):
    lines, others = LINES[:4], ["a", "b", "", "the river"]
    outputs = predict(server, signature_name="nbest", inputs=lines)["outputs"]
    for row, found in enumerate(translator.translate(lines, 4)):
        assert outputs["count"][row] == len(found)
        real = {name: outputs[name][row][: len(found)] for name in columns(found)}
        assert real == columns(found)
    inputs = {"source": lines, "prefix": others}
    outputs = predict(server, signature_name="prefix", inputs=inputs)["outputs"]
    expected = columns(best for best, *_ in translator.translate(lines, prefixes=others))
    assert outputs == {**expected, "truncated": [False] * 4}
    inputs = {"source": lines, "target": others}
    outputs = predict(server, signature_name="score", inputs=inputs)["outputs"]
    pairs = translator.score(lines, others)
    assert outputs == {
        "log_probability": pytest.approx([pair.log_probability for pair in pairs], rel=1e-5),
        "length": [len(pair.subwords) for pair in pairs],
        "truncated": [False] * 4,
    }


def test_sentences_are_served_as_they_are_translated(translator):
    server = Server(translator, OPTIONS._replace(split_sentences=True), [], workers=2)
    lines = ["The red bird.  A tree. ", "", "A house.\n\nA cloud", *LINES]
    rows = translate_split(translator, lines, "en")
    outputs = predict(server, inputs=lines)["outputs"]
    truncated = {"truncated": [row.truncated for row in rows]}
    assert outputs == {**columns(rows), **truncated}
    n_best = predict(server, signature_name="nbest", inputs=lines)["outputs"]
    assert [texts[0] for texts in n_best["translation"]] == outputs["translation"]
    assert n_best["count"] == [1] * len(lines)
    body = {"signature_name": "prefix", "inputs": {"source": ["a"], "prefix": ["a"]}}
    assert answers(server, ("POST", PREDICT, json.dumps(body)))[0][0] == 400


def test_the_page_asks_for_what_is_served(server):
    ((status, page),) = answers(server, ("GET", "/"))
    assert status == 200
    *others, path = re.findall(r'call\("([^"]+)"', page)
    assert others == ["languages", "frontend/settings", "translate"]
    (signature,) = re.findall(r'signature_name: "(\w+)"', page)
    body = json.dumps({"signature_name": signature, "inputs": ["a"]})
    ((status, text),) = answers(server, ("POST", f"/{path}", body))
    assert status == 200
    assert {*re.findall(r"outputs\.(\w+)", page)} <= json.loads(text)["outputs"].keys()


def test_state_and_health(server):
    paths = (MODEL, f"{MODEL}/versions/1", "/health")
    (model, version, health) = answers(server, *(("GET", path) for path in paths))
    (state,) = json.loads(model[1])["model_version_status"]
    assert (model[0], state["version"], state["state"]) == (200, "1", "AVAILABLE")
    assert version == model
    assert health[0] == 200


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", PREDICT, "no JSON", 400),
        ("POST", PREDICT, json.dumps({"inputs": ["a"] * 33}), 400),
        ("POST", PREDICT, json.dumps({"inputs": ["a" * 200_000]}), 413),
        ("POST", "/v1/models/other:predict", "{}", 404),
        ("GET", PREDICT, None, 405),
    ],
)
def test_what_is_refused_has_a_status_and_a_reason(server, method, path, body, status):
    ((found, text),) = answers(server, (method, path, body))
    assert found == status
    assert (PREDICT if status == 404 else "") in json.loads(text)["error"]


@pytest.mark.parametrize(
    ("host", "listens_at", "status"),
    [
        ("localhost:8501", "127.0.0.1", 200),
        ("proxy.example", "127.0.0.1", 200),
        ("192.168.1.7", "127.0.0.1", 421),
        ("192.168.1.7", "0.0.0.0", 200),
    ],
)
def test_it_is_called_by_its_own_names(translator, host, listens_at, status):
    server = Server(translator, OPTIONS._replace(host=listens_at), [], workers=2)
    assert answers(server, ("GET", "/health"), Host=host)[0][0] == status


def test_a_slow_client_is_given_up(server):
    async def ask():
        async with TestServer(server.application()) as test_server:
            reader, writer = await asyncio.open_connection(test_server.host, test_server.port)
            head = f"POST {PREDICT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"
            writer.write(head.encode())
            status = await reader.readline()
            writer.close()
            return status

    assert b" 408 " in asyncio.run(ask())


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


def test_a_full_queue_is_429(translator):
    server = Server(translator, OPTIONS._replace(max_waiting=2), [], workers=2)
    held = Held(server._queue.functions)
    body = json.dumps({"inputs": ["a tree"]})

    async def ask():
        async with TestClient(TestServer(server.application())) as client:
            first = [asyncio.create_task(answer(client, "POST", PREDICT, body)) for _ in range(2)]
            await until(lambda: server._open_requests == 2)
            refused = await answer(client, "POST", PREDICT, body)
            held.may_go.set()
            return [status for status, _ in (refused, *await asyncio.gather(*first))]

    assert asyncio.run(ask()) == [429, 200, 200]


def serving(translator, scenario, **options):
    """Runs a scenario with a running server, which has to end after it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = Server(translator, OPTIONS._replace(rest_port=port, **options), [], workers=2)

    async def is_up(client):
        try:
            return (await answer(client, "GET", "/health"))[0] == 200
        except aiohttp.ClientConnectionError:
            return False

    async def run():
        running = asyncio.create_task(server.serve())
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client:
            while not await is_up(client):
                await asyncio.sleep(0.01)
            found = await scenario(server, client)
        async with asyncio.timeout(20):
            await running
        return found

    return asyncio.run(run())


def test_a_port_that_was_taken_meanwhile_is_one_line(translator):
    with socket.create_server(("127.0.0.1", 0)) as busy:
        options = OPTIONS._replace(rest_port=busy.getsockname()[1])
        with pytest.raises(UserError, match="--rest_port"):
            asyncio.run(Server(translator, options, [], workers=2).serve())


def test_what_was_received_before_sigterm_is_answered(translator):
    async def scenario(server, client):
        held = Held(server._queue.functions)
        bodies = [json.dumps({"inputs": [line]}) for line in [*LINES, "gone"]]
        received = [asyncio.create_task(answer(client, "POST", PREDICT, body)) for body in bodies]
        await until(lambda: server._open_requests == len(bodies))
        # A client that hangs up is forgotten.
        received.pop().cancel()
        await until(lambda: server._open_requests == len(LINES))
        os.kill(os.getpid(), signal.SIGTERM)
        await until(lambda: server._is_draining)
        refused = [await answer(client, "POST", PREDICT, bodies[0]) for _ in range(3)]
        held.may_go.set()
        return refused, await asyncio.gather(*received)

    refused, received = serving(translator, scenario)
    assert [status for status, _ in refused] == [503] * 3
    texts = [json.loads(text)["outputs"]["translation"][0] for _, text in received]
    assert texts == [best.text for best, *_ in translator.translate(LINES)]


def test_parameters_of_a_type_are_not_decoded(server):
    headers = {"Content-Type": f"application/json; a*{'9' * 5000}=b; charset*=punycode''x"}
    assert answers(server, ("POST", "/translate", "{}"), **headers)[0][0] == 400


def test_only_allowed_sites_have_their_pages_answered(server):
    for origin, allowed in (("https://page.example", True), ("https://other.example", False)):

        async def ask(origin=origin):
            async with TestClient(TestServer(server.application())) as client:
                requests = ("OPTIONS", "/translate"), ("GET", "/languages"), ("GET", "/nowhere")
                found = [await client.request(*one, headers={"Origin": origin}) for one in requests]
                return [(one.status, "Access-Control-Allow-Origin" in one.headers) for one in found]

        assert asyncio.run(ask()) == [(204, allowed), (200, allowed), (404, allowed)]


def test_requests_are_logged_without_text_and_key(server, caplog):
    body = json.dumps({"inputs": ["the red stone", "a"]})
    requests = ("POST", f"{PREDICT}?api_key=secret", body), ("GET", "/x%3Fapi_key=secret", None)
    with caplog.at_level("INFO", "absl"):
        answers(server, *requests)
    infos = (record for record in caplog.records if record.levelname == "INFO")
    first, second = (record.getMessage() for record in infos)
    assert re.fullmatch(rf"POST {PREDICT} 200, \d+ ms, 2 texts, 14 characters", first)
    assert re.fullmatch(r"GET /x 404, \d+ ms", second)


async def exchange(client, sent):
    """Returns what a server sends until it closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", client._base_url.port)
    writer.write(sent)
    async with asyncio.timeout(30):
        received = await reader.read()
    writer.close()
    os.kill(os.getpid(), signal.SIGTERM)
    return received


@pytest.mark.parametrize(
    "sent",
    [
        "",
        "GET /health HTTP/1.1\r\nHost: secret",
        "GET /health?api_key=secret HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET /?api_key=secret HTTP/1.1\r\nHost: secret\0\r\n\r\n",
        "\x16\x03secret",
        "POST /translate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nsecret\r\n",
    ],
    ids=["nothing", "half a header", "a request", "a null", "no HTTP", "a bad chunk"],
)
def test_connections_are_closed_and_what_they_sent_is_not_repeated(translator, sent, caplog):
    with caplog.at_level("INFO"):
        received = serving(translator, lambda _, client: exchange(client, sent.encode()))
    assert b"secret" not in received
    assert "secret" not in caplog.text
    assert "Traceback" not in caplog.text


def test_a_compressed_body_is_not_inflated(translator):
    packer = zlib.compressobj(1, wbits=31)
    first, block = (packer.compress(bytes(10**7)) + packer.flush(zlib.Z_FULL_FLUSH) for _ in "ab")
    body = first + block * 300
    head = f"Host: localhost\r\nContent-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n"
    began = time.process_time()
    sent = f"POST /translate HTTP/1.1\r\n{head}".encode() + body
    assert b" 415 " in serving(translator, lambda _, client: exchange(client, sent))
    # To inflate 3 GB takes longer.
    assert time.process_time() - began < 1
