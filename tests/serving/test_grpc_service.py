import asyncio
import socket
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from t2t_repro.serving.authority import authority
from t2t_repro.serving.grpc_service import GrpcService
from t2t_repro.serving.model_process import VersionLimits
from t2t_repro.serving.request_room import RequestRoom
from t2t_repro.serving.served_versions import ServedVersions

PREDICT = "/tensorflow.serving.PredictionService/Predict"


def has_ipv6():
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


@asynccontextmanager
async def channel_to(host="127.0.0.1", client_seconds=60.0):
    """A channel to a server of no model, with room for one request; and its address."""
    versions = ServedVersions("made", Path("none"), VersionLimits(1.0, 2**30, 1, 2**20))
    service = GrpcService(versions, RequestRoom(1, 2**20), 2**20, client_seconds)
    address = authority(host, await service.start(host, 0))
    async with grpc.aio.insecure_channel(address) as channel:
        yield channel, address
    await service.stop(0)


async def health_at(host):
    async with channel_to(host) as (channel, address):
        stub = health_pb2_grpc.HealthStub(channel)
        found = await stub.Check(health_pb2.HealthCheckRequest(), timeout=60)
    return address, found.status


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "127.0.0.1:"),
        pytest.param(
            "::1", "[::1]:", marks=pytest.mark.skipif(not has_ipv6(), reason="needs IPv6")
        ),
    ],
)
def test_it_listens_at_the_addresses_of_both_protocols(host, address):
    found, status = asyncio.run(health_at(host))
    assert found.startswith(address)
    assert status == health_pb2.HealthCheckResponse.SERVING


async def answer(call):
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await call
    return f"{error.value.code().name}: {error.value.details()}"


def test_a_request_has_its_place_before_it_is_there():
    async def answers():
        async with channel_to() as (channel, _):
            ask = channel.unary_unary(PREDICT)
            empty = await answer(ask(b"", timeout=60))
            unfinished = channel.stream_unary(PREDICT)(timeout=60)
            await unfinished.wait_for_connection()
            return empty, await answer(ask(b"", timeout=60))

    empty, full = asyncio.run(answers())
    assert empty == "UNAVAILABLE: the model is being loaded"
    assert full == "UNAVAILABLE: too many requests are waiting: try again later"


@pytest.mark.parametrize("method", [PREDICT, "/grpc.health.v1.Health/Check"])
def test_a_request_that_never_comes_is_not_waited_for(method):
    async def answers():
        async with channel_to(client_seconds=0.1) as (channel, _):
            call = channel.stream_unary(method)
            late = await answer(call(timeout=60))
            return late, await answer(call(iter(()), timeout=60))

    late, none = asyncio.run(answers())
    assert late == "DEADLINE_EXCEEDED: no whole request within 0.1 s"
    assert none == "INVALID_ARGUMENT: there is no request"
