import asyncio
import socket
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from t2t_repro.serving.authority import authority
from t2t_repro.serving.grpc_service import GrpcService
from t2t_repro.serving.model_process import VersionLimits
from t2t_repro.serving.request_room import RequestRoom
from t2t_repro.serving.served_versions import ServedVersions


def has_ipv6():
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


async def health_at(host):
    versions = ServedVersions("made", Path("none"), VersionLimits(1.0, 2**30, 1, 2**20))
    service = GrpcService(versions, RequestRoom(1, 2**20), 2**20)
    address = authority(host, await service.start(host, 0))
    async with grpc.aio.insecure_channel(address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        found = await stub.Check(health_pb2.HealthCheckRequest(), timeout=60)
    await service.stop(0)
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
