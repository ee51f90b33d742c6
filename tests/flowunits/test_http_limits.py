"""Tests of HTTP nodes' limits before a request: long heads, silence, connections, cut bodies."""

import errno
import http.client
import json
import socket
import threading
from typing import ClassVar

import pytest

import modelflow
from modelflow import Buffer
from modelflow.errors import FlowFailed
from tests.flowunits.http_service import GRAPH, Service, free_port


def echo(buffer: Buffer):
    """Returns the request."""
    return buffer.data


def connected(service):
    return socket.create_connection(("127.0.0.1", service.port), timeout=60)


def everything(client):
    """Returns all data until the other side closes."""
    parts = []
    try:
        while part := client.recv(1 << 16):
            parts.append(part)
    except ConnectionResetError:  # the server closed the connection while we were still sending
        pass
    return b"".join(parts)


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: " + b"x" * 5000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n" + b"".join(b"X-%d: y\r\n" % n for n in range(900)),
        b"GET /" + b"x" * 5000,
    ],
    ids=["whole", "many", "address"],
)
def test_a_head_that_is_too_long_is_refused(head):
    with Service(echo, ", max_header_bytes=4096") as service:
        with connected(service) as client:
            client.sendall(head)
            answer = everything(client)
        assert answer.startswith(b"HTTP/1.1 431 ")
        assert b"the head of the request has more than 4096 bytes" in answer
        assert service.ask(b"x")[:2] == (200, b"x")


def test_headers_behind_a_body_are_bounded_too():
    with Service(echo, ", max_header_bytes=4096") as service, connected(service) as client:
        client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        try:  # more data than the server reads before it ends the connection
            client.sendall(b"1\r\nx\r\n0\r\nX-Long: " + b"x" * 1_000_000)
            client.shutdown(socket.SHUT_WR)
        except ConnectionError:
            pass
        # the shutdown of a connection that has ended meanwhile; no time-out
        except OSError as error:
            assert error.errno == errno.ENOTCONN  # noqa: PT017 - it need not be raised
        everything(client)
        assert service.ask(b"x")[:2] == (200, b"x")


def test_what_is_no_request_is_answered_400():
    with Service(echo) as service, connected(service) as client:
        client.sendall(b"what is this?\r\n\r\n")
        assert everything(client).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    ("said", "answer"), [(b"", b""), (b"GET / HTTP/1.1\r\nHost: x\r\n", b"HTTP/1.1 408 ")]
)
def test_a_head_that_does_not_come_ends_the_connection(said, answer):
    with Service(echo, ", header_time_out_ms=50") as service:
        with connected(service) as client:
            client.sendall(said)
            assert everything(client)[:13] == answer
        connection = service.connect()  # an idle connection has another limit
        for body in (b"a", b"b"):
            connection.request("POST", "/", body)
            assert connection.getresponse().read() == body
        connection.close()


def test_those_who_say_nothing_shut_nobody_out():
    with Service(echo, ", max_connections=4, max_connections_per_client=4") as service:
        silent = [connected(service) for _ in range(12)]
        assert service.ask(b"x")[:2] == (200, b"x")
        # they were closed for newer connections
        assert [everything(client) for client in silent[:8]] == [b""] * 8
        for client in silent:
            client.close()


def test_one_client_cannot_take_every_connection():
    begun, go = threading.Semaphore(0), threading.Event()

    def work(buffer: Buffer):
        """Waits."""
        begun.release()
        assert go.wait(60)
        return buffer.data

    found = []
    with Service(work, ", max_connections=9, max_connections_per_client=2") as service:
        threads = [
            threading.Thread(target=lambda: found.append(service.ask(b"x")[0])) for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        for _ in threads:
            assert begun.acquire(timeout=60)
        with connected(service) as client:
            client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
            assert everything(client).startswith(b"HTTP/1.1 503 ")
        go.set()
        for thread in threads:
            thread.join()
    assert found == [200, 200]


@pytest.mark.parametrize("unit", ["httpserver_sync_receive", "httpserver_async"])
def test_a_body_that_was_cut_off_is_not_worked_on(unit):
    seen = []

    @modelflow.flowunit(name="work", outputs=())
    def keep(buffer: Buffer):
        """Records the request."""
        seen.append(buffer.data)

    port = free_port()
    text = f"""digraph {{
        receive [flowunit={unit}, endpoint="http://127.0.0.1:{port}"]
        work [flowunit=work, batch_size=1]
        receive -> work
    }}"""
    with modelflow.Flow(text, units=[keep]):
        for head in (b"Content-Length: 100", b"Transfer-Encoding: chunked"):
            with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
                client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\n" + head + b"\r\n\r\n")
                client.sendall(b'5\r\n{"pay\r\n' if b"chunked" in head else b'{"pay": 10')
                client.shutdown(socket.SHUT_WR)
                everything(client)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("POST", "/", b"whole")
        connection.getresponse().read()
        connection.close()
    assert seen == [b"whole"]


def test_all_bodies_together_are_bounded():
    begun, go = threading.Semaphore(0), threading.Event()

    def work(buffer: Buffer):
        """Waits."""
        begun.release()
        assert go.wait(60)
        return buffer.data

    found = []
    with Service(work, ", max_bodies_bytes=100") as service:
        thread = threading.Thread(target=lambda: found.append(service.ask(b"x" * 60)[0]))
        thread.start()
        assert begun.acquire(timeout=60)
        status, answer, headers = service.ask(b"y" * 60)
        assert (status, headers["retry-after"]) == (503, "1")
        assert b"no room for the body" in answer
        go.set()
        thread.join()
        # The bytes are released when the session is over, not when the answer has been sent.
        service.flow.stop()
    assert found == [200]


def test_bytes_of_bodies_are_given_back():
    with Service(echo, ", max_bodies_bytes=200000") as service:
        connection = service.connect()
        statuses = []
        for _ in range(20):
            connection.request("POST", "/", b"x" * 60000)
            response = connection.getresponse()
            response.read()
            statuses.append(response.status)
        connection.close()
    assert set(statuses) == {200}


class Slow(modelflow.FlowUnit):
    """A unit that checks in `open` whether the server listens."""

    found: ClassVar[list[type]] = []
    port = 0

    def open(self, config):
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=60).close()
            self.found.append(type(None))
        except OSError as error:
            self.found.append(type(error))

    def process(self, ctx):
        ctx.emit(ctx.input())


def slow(port):
    found: list[type] = []
    unit = type("Unit", (Slow,), {"found": found, "port": port})
    ports = {"inputs": (modelflow.Port("in"),), "outputs": (modelflow.Port("out"),)}
    return modelflow.FlowUnitSpec("work", {"cpu": unit}, **ports), found


def test_requests_are_taken_only_when_every_unit_is_open(caplog):
    port = free_port()
    spec, found = slow(port)
    text = GRAPH.format(
        unit="httpserver_sync_receive",
        endpoint=f"http://127.0.0.1:{port}",
        options="",
        work="flowunit=work",
    )
    caplog.set_level("INFO", logger="modelflow")
    # The calling thread opens the units in the order of the graph.
    with modelflow.Flow(text, units=[spec], threads=0):
        said = [r.getMessage() for r in caplog.records if "listens at" in r.getMessage()]
        assert len(said) == 1
        for path in ("/health", "/health/live", "/health/ready"):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", path)
            response = connection.getresponse()
            assert (response.status, response.read()) == (200, b"ok")
            connection.close()
    assert set(found) == {ConnectionRefusedError}


def test_a_probe_of_the_default_endpoint_runs_no_graph():
    seen = []

    def work(buffer: Buffer):
        """Records the address of the request."""
        seen.append(buffer.get("uri"))
        return b"answer"

    with Service(work) as service:
        for path in ("/health", "/health/live", "/health/ready"):
            assert service.ask(b"", path, "GET")[:2] == (200, b"ok")
        assert service.ask(b"", "/healthy")[:2] == (200, b"answer")
    assert seen == ["/healthy"]


def test_an_endpoint_that_the_server_answers_itself_is_refused():
    text = GRAPH.format(
        unit="httpserver_sync_receive",
        endpoint="http://127.0.0.1:0/health",
        options="",
        work="flowunit=work",
    )
    unit = modelflow.flowunit(name="work")(echo)
    with pytest.raises(FlowFailed) as raised, modelflow.Flow(text, units=[unit]):
        pass
    assert "the server itself answers there" in str(raised.value.exceptions[0])


def test_an_answer_that_cannot_be_made_tells_no_insides(caplog):
    def work(buffer: Buffer):
        """Returns a buffer that is no valid answer."""
        return Buffer("x", {"headers": {"a": "secret\r\nb: c"}})

    with Service(work) as service:
        status, body, _ = service.ask()
    told = json.loads(body)["error"]
    assert status == 500
    assert "secret" not in told["message"]
    assert any(told["id"] in r.getMessage() and "secret" in r.getMessage() for r in caplog.records)
