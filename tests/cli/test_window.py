"""``/metrics`` and ``/stats`` of a run, beside clients that mean no good."""

import socket
import time

import pytest

from modelflow.cli.window import Window

SLOW = 0.02
MOST = 3000


def test_who_sends_a_request_bit_by_bit_does_not_keep_it_open(capfd):
    with Window("0", dict, dict) as window:
        host, port = window.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as client:
            client.sendall(b"GET /stats HTTP/1.1\r\nX: ")
            for _ in range(MOST):
                try:
                    client.sendall(b"a")
                except OSError:  # it was closed on us
                    break
                time.sleep(SLOW)  # how long a client takes that means no good
            else:
                pytest.fail("the window waits for as long as something comes")
        with socket.create_connection((host, int(port))) as client:
            client.sendall(b"GET /stats HTTP/1.0\r\n\r\n")
            assert client.makefile("rb").read().endswith(b"\r\n\r\n{}")
    assert capfd.readouterr().err == ""
