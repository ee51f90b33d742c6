"""Tests of load on servers: modelflow's, and servers with faults."""

import contextlib
import json
import socket
import threading

import pytest

from modelflow.errors import ConfigError
from modelflow.insight.load.http_request import HttpBody
from modelflow.insight.load.http_target import HttpTarget
from modelflow.insight.load.load import run
from modelflow.insight.load.options import LoadOptions
from modelflow.insight.load.target import Outcome
from tests.serve.certificates import Authority
from tests.serve.clients import served

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


def body(*values):
    return HttpBody(json.dumps({"instances": [list(values)]}).encode(), "application/json")


def counted(number, clients=3, **more):
    return LoadOptions(clients=clients, requests=number, seconds=None, warm_up=0.0, **more)


@contextlib.contextmanager
def scripted(*scripts):
    """Starts a server whose connections follow one script each: the data to send for each request.

    None ends the connection without an answer. Yields the URL and the received requests.
    """
    came = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        for script in scripts:
            with listener.accept()[0] as connection:
                for answer in script:
                    text = b""
                    while not text.endswith(b"\r\n\r\n"):
                        part = connection.recv(65536)
                        if not part:
                            break
                        text += part
                    if not text:
                        break
                    came.append(text)
                    if answer is None:
                        break
                    connection.sendall(answer)
        listener.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/", came
    finally:
        listener.close()
        thread.join()


def test_a_served_flow_answers_and_its_failures_have_their_status():
    with served() as server:
        url = f"{server.address}/v1/models/m:predict"
        with HttpTarget(url, [body(1.0, 2.0), body()]) as target:
            found = run(target, counted(40))
            again = run(target, LoadOptions(rate=500, requests=30, seconds=None, warm_up=0))
        with HttpTarget(f"{server.address}/readyz") as target:
            ready = run(target, counted(5))
        with HttpTarget(f"{server.address}/nowhere", [body(1.0)]) as target:
            lost = run(target, counted(5))
    assert (found.ok, found.count) == (20, 40)
    (failure,) = found.failures
    assert failure.startswith(("HTTP 4", "HTTP 5"))
    assert again.ok == again.count / 2 == 15
    assert ready.outcomes == {"ok": 5}
    assert lost.outcomes == {"HTTP 404": 5}
    assert found.target == url


def test_open_inference_is_asked_over_https(tmp_path):
    authority = Authority(tmp_path / "tls")
    document = {"inputs": [{"name": "input", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]}]}
    text = HttpBody(json.dumps(document).encode(), "application/json")
    with served(tls=authority.options()) as server:
        url = f"{server.address}/v2/models/m/infer"
        assert url.startswith("https://")
        with HttpTarget(url, [text], ca=authority.path) as target:
            found = run(target, counted(20))
        untrusting = HttpTarget(url, [text])
        with (
            pytest.raises(ConfigError, match=r"cannot connect: .*certificate verify failed"),
            untrusting,
        ):
            untrusting.connect()
    assert found.outcomes == {"ok": 20}


def test_a_connection_is_used_again():
    with scripted([OK] * 5) as (url, came), HttpTarget(url, headers=[("X-A", "b")]) as target:
        target.connect()
        found = run(target, counted(5, clients=1))
    assert found.outcomes == {"ok": 5}
    assert came == [f"GET / HTTP/1.1\r\nHost: {url[7:-1]}\r\nX-A: b\r\n\r\n".encode()] * 5


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", "ok"),
        (b"HTTP/1.0 200 OK\r\n\r\nuntil the end", "ok"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, "ok"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", "ok"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", "ok"),
        (b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: /\r\n\r\n", "HTTP 302"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort", "no answer"),
        (b"nonsense\r\n\r\n", "no HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\nA: " + b"a" * 70_000, "too long an answer"),
        (None, "no answer"),
    ],
)
def test_whatever_a_server_answers_has_a_name(answer, outcome):
    with scripted([answer]) as (url, _), HttpTarget(url) as target:
        found = run(target, counted(1))
    assert found.outcomes == {outcome: 1}


def test_a_request_on_a_connection_that_has_just_ended_is_sent_again():
    with scripted([OK, None], [OK]) as (url, came), HttpTarget(url) as target:
        found = run(target, counted(2, clients=1))
    assert found.outcomes == {"ok": 2}
    assert len(came) == 3


def test_a_server_that_goes_away_is_a_failure_of_each_request():
    with scripted([OK]) as (url, _), HttpTarget(url) as target:
        found = run(target, counted(3, clients=1))
    assert found.outcomes["ok"] == 1
    assert found.count == 3
    assert set(found.failures) <= {"ConnectionRefusedError", "ConnectionResetError", "no answer"}


def test_what_is_not_answered_in_time_is_given_up_with_its_connection():
    # the first request gets no bytes
    with scripted([b"", OK], [OK]) as (url, _), HttpTarget(url) as target:
        found = run(target, counted(2, clients=1, timeout=0.2))
    assert found.outcomes == {Outcome.TIMED_OUT: 1, "ok": 1}


def test_nobody_there_is_a_clear_error():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    target = HttpTarget(f"http://127.0.0.1:{port}/x")
    with pytest.raises(ConfigError) as caught, target:
        target.connect()
    assert str(caught.value) == f"http://127.0.0.1:{port}/x: cannot connect: Connection refused"
