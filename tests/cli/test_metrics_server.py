"""Tests of ``/metrics`` and ``/stats`` of a run, with hostile clients at the same time."""

import socket
import time
from dataclasses import replace

import pytest

from modelflow.cli.run.metrics_server import MetricsServer
from modelflow.studio import site

SLOW = 0.02
MOST = 3000


def test_who_sends_a_request_bit_by_bit_does_not_keep_it_open(capfd, monkeypatch):
    monkeypatch.setattr(site, "_LIMITS", replace(site._LIMITS, header_time_out=0.3))
    with MetricsServer("0", dict, dict) as window:
        host, port = window.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as client:
            client.sendall(b"GET /stats HTTP/1.1\r\nX: ")
            for _ in range(MOST):
                try:
                    client.sendall(b"a")
                except OSError:  # the server has closed the connection
                    break
                time.sleep(SLOW)  # the pace of a hostile client
            else:
                pytest.fail("the window waits for as long as something comes")
        with socket.create_connection((host, int(port))) as client:
            client.sendall(b"GET /stats HTTP/1.0\r\nHost: localhost:%s\r\n\r\n" % port.encode())
            assert client.makefile("rb").read().endswith(b"\r\n\r\n{}")
    assert capfd.readouterr().err == ""


def ask(window, head):
    """Sends a head with the window's address for HOST; returns the status line and the body."""
    address = window.url.removeprefix("http://")
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), timeout=60) as client:
        whole = f"{head.replace('HOST', address)}Connection: close\n\n"
        client.sendall(whole.replace("\n", "\r\n").encode())
        first, _, rest = client.makefile("rb").read().partition(b"\r\n")
    return first.split(b" ", 1)[1].decode(), rest


@pytest.fixture(scope="module")
def window():
    with MetricsServer("0", dict, lambda: {"name": "secret"}) as found:
        yield found


@pytest.mark.parametrize("path", ["/stats", "/metrics", "/other"])
@pytest.mark.parametrize("host", ["evil.example", "evil.example:9", "127.0.0.1", "HOST.evil", ""])
def test_a_name_of_somebody_else_is_refused(window, path, host):
    status, rest = ask(window, f"GET {path} HTTP/1.1\nHost: {host}\n")
    assert status == "421 Misdirected Request"
    assert b"secret" not in rest


def test_pages_of_other_sites_are_refused(window):
    status, rest = ask(window, "GET /stats HTTP/1.1\nHost: HOST\nOrigin: http://evil.example\n")
    assert (status, b"secret" in rest) == ("403 Forbidden", False)


@pytest.mark.parametrize(
    "head",
    [
        "GET /stats HTTP/1.1\nHost: HOST\n",
        "GET /stats HTTP/1.1\nHost: HOST\nOrigin: http://HOST\n",
        "GET http://HOST/stats HTTP/1.1\nHost: evil.example\n",
    ],
)
def test_its_own_name_is_accepted(window, head):
    status, rest = ask(window, head)
    assert (status, b"secret" in rest) == ("200 OK", True)


def test_an_absolute_target_names_the_host(window):
    status, _ = ask(window, "GET http://evil.example/stats HTTP/1.1\nHost: HOST\n")
    assert status == "421 Misdirected Request"


def test_two_hosts_are_refused(window):
    status, rest = ask(window, "GET /stats HTTP/1.1\nHost: HOST\nHost: HOST\n")
    assert (status.split()[0], b"secret" in rest) == ("400", False)


def test_other_methods_are_not_allowed(window):
    assert ask(window, "POST /stats HTTP/1.1\nHost: HOST\n")[0] == "405 Method Not Allowed"
