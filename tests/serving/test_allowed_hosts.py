import pytest
from aiohttp import web

from t2t_repro.serving.allowed_hosts import AllowedHosts


def is_allowed(hosts, host):
    try:
        hosts.check(host)
    except web.HTTPMisdirectedRequest:
        return False
    return True


def test_the_error_says_what_to_do():
    with pytest.raises(web.HTTPMisdirectedRequest) as error:
        AllowedHosts("127.0.0.1").check("model.example")
    assert "Host is model.example, expected this machine" in (error.value.text or "")
    assert "--allowed_host" in (error.value.text or "")


@pytest.mark.parametrize(
    "host",
    ["localhost", "LocalHost:8501", "localhost.", "127.0.0.1:8501", "127.9.9.9", "[::1]:80", None],
)
def test_this_machine_s_own_names(host):
    assert is_allowed(AllowedHosts("127.0.0.1"), host)


@pytest.mark.parametrize(
    "host",
    [
        "attacker.example",
        "attacker.example:8501",
        "localhost.attacker.example",
        "127.0.0.1.attacker.example",
        "192.168.1.5",
        "[2001:db8::1]",
        "",
        ":8501",
        "[",
        "localhost@attacker.example",
        "localhost:8501:1",
        "0x7f.1",
        "x" * 5000,
    ],
)
def test_another_name(host):
    assert not is_allowed(AllowedHosts("127.0.0.1"), host)


def test_names_that_are_given():
    hosts = AllowedHosts("model.lan", ["Translate.Example"])
    assert is_allowed(hosts, "model.lan:80")
    assert is_allowed(hosts, "translate.example")
    assert is_allowed(hosts, "localhost")
    assert not is_allowed(hosts, "example")


@pytest.mark.parametrize("everywhere", ["0.0.0.0", "::"])
def test_a_server_that_listens_everywhere_has_any_address_and_no_other_name(everywhere):
    hosts = AllowedHosts(everywhere)
    assert is_allowed(hosts, "192.168.1.5:8501")
    assert is_allowed(hosts, "[2001:db8::1]")
    assert not is_allowed(hosts, "attacker.example")
