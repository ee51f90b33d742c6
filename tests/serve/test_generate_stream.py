"""Tests of server-sent events: each buffer is sent as an event at once."""

import contextlib
import json
import socket

import pytest

from modelflow.serve.server import ServeOptions, Server
from tests.http.clients import is_ended
from tests.http.clients import request as http_request
from tests.serve.clients import ask, send, served
from tests.serve.tokens import Tokens

PATH = "/v2/models/m/generate_stream"


@contextlib.contextmanager
def streaming(tokens, results_bound=None, **options):
    """Yields a server of a model that gives many buffers for one input."""
    bound = {} if results_bound is None else {"results_bound": results_bound}
    try:
        with Server({"m": tokens.flow(**bound)}, ServeOptions(http_port=0, **options)) as server:
            yield server
    finally:
        tokens.go.release(1000)


class Events:
    """A connection and its events."""

    def __init__(self, server):
        host, port = server.address.removeprefix("http://").split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=60)
        self.file = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.socket.close()

    def ask(self, value, *headers, version="1.1"):
        body = json.dumps({"input": value}).encode()
        self.socket.sendall(http_request(PATH, body, *headers, version=version))

    def head(self):
        """Returns the status and the headers of a reply."""
        first = self.file.readline()
        lines = iter(self.file.readline, b"\r\n")
        found = dict(line.decode().strip().lower().split(": ", 1) for line in lines)
        return int(first.split()[1]), found

    def next(self):
        """Returns the value of the next event, or None at the end."""
        size = int(self.file.readline(), 16)
        data = self.file.read(size)
        assert self.file.read(2) == b"\r\n"
        if not size:
            return None
        assert data.startswith(b"data: "), data
        assert data.endswith(b"\n\n")
        return json.loads(data.removeprefix(b"data: "))


def test_an_event_goes_out_before_the_next_buffer_is_made():
    tokens = Tokens()
    with streaming(tokens) as server, Events(server) as events:
        events.ask(3)
        status, headers = events.head()
        assert (status, headers["transfer-encoding"]) == (200, "chunked")
        assert headers["content-type"].startswith("text/event-stream")
        for number in range(3):
            assert events.next() == {"output": number}
            assert tokens.made == list(range(number + 1))
            tokens.go.release()
        assert events.next() is None
        events.ask(1)  # the connection stays open
        assert events.head()[0] == 200
        assert [events.next(), events.next()] == [{"output": 0}, None]
        figures = server.model("m").figures
        assert figures.outcomes == {"OK": 2}


def test_a_model_of_one_buffer_gives_one_event():
    with served() as server:
        status, headers, body = send(server, "POST", PATH, b'{"input": [1.0, 3.0]}')
    assert (status, body) == (200, b'data: {"output": 2.0}\n\n')
    assert headers["cache-control"] == "no-cache"


def test_an_error_is_the_last_event():
    with streaming(Tokens(is_free=True)) as server, Events(server) as events:
        events.ask(-4)
        assert events.head()[0] == 200
        assert [events.next() for _ in range(2)] == [{"output": 0}, {"output": 1}]
        assert events.next() == {"error": "node 'tokens': half of it is enough"}
        assert events.next() is None
        assert server.model("m").figures.outcomes == {"INVALID_ARGUMENT": 1}


@pytest.mark.parametrize(
    ("path", "document", "status"),
    [
        (PATH, {"x": 1}, 400),
        (PATH, b"{", 400),
        ("/v2/models/x/generate_stream", {"input": 1}, 404),
        ("/v2/models/m/versions/1/generate_stream", {"input": 1}, None),
    ],
)
def test_what_is_wrong_with_a_request_is_answered_as_elsewhere(path, document, status):
    with streaming(Tokens(is_free=True)) as server:
        if status is None:
            assert send(server, "POST", path, json.dumps(document))[0] == 200
        else:
            found = ask(server, path, document)
            assert (found[0], "error" in found[1]) == (status, True)


def test_a_value_that_no_json_can_say_is_an_error_event(monkeypatch, caplog):
    tokens = Tokens(is_free=True)
    monkeypatch.setattr(tokens.unit, "process", lambda _, ctx: ctx.emit([object()]))
    with streaming(tokens) as server, Events(server) as events:
        events.ask(1)
        events.head()
        assert "inside the server" in events.next()["error"]
        assert events.next() is None
    assert "object" in caplog.text


def test_a_client_that_goes_away_takes_its_request_with_it():
    tokens = Tokens()
    with streaming(tokens) as server:
        with Events(server) as events:
            events.ask(1000)
            events.head()
            assert events.next() == {"output": 0}
        while server.model("m").admission.under_way:
            pass
        tokens.go.release(1000)
        assert tokens.ended.acquire(timeout=60)
        assert server.model("m").figures.outcomes == {"CANCELLED": 1}
    assert len(tokens.made) < 5


def test_a_client_that_goes_before_its_turn_takes_its_request_with_it():
    tokens = Tokens()
    with streaming(tokens) as server:
        with Events(server) as events:
            events.ask(1000)
            events.ask(1000)
            assert tokens.began.acquire(timeout=60)
            assert tokens.began.acquire(timeout=60)
        while server.model("m").admission.under_way:
            pass
        tokens.go.release(1000)
        for _ in range(2):
            assert tokens.ended.acquire(timeout=60)
        assert server.model("m").figures.outcomes == {"CANCELLED": 2}


def test_requests_behind_a_stream_are_answered_behind_it():
    tokens = Tokens()
    with streaming(tokens) as server, Events(server) as events:
        events.ask(2)
        events.ask(1)
        assert events.head()[0] == 200
        assert events.next() == {"output": 0}
        tokens.go.release(2)
        assert [events.next(), events.next()] == [{"output": 1}, None]
        assert events.head()[0] == 200
        assert [events.next(), events.next()] == [{"output": 0}, None]


def test_a_client_that_takes_nothing_holds_up_only_itself():
    tokens = Tokens(is_free=True, size=1 << 16)
    with streaming(tokens, results_bound=8) as server, Events(server) as idle:
        idle.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        idle.ask(200)
        assert tokens.began.acquire(timeout=60)
        with Events(server) as busy:
            busy.ask(50)
            busy.head()
            assert sum(1 for _ in iter(busy.next, None)) == 50
        assert len(tokens.made) < 150
        idle.head()
        assert sum(1 for _ in iter(idle.next, None)) == 200


def test_a_client_of_http_1_0_is_told_the_end_by_the_connections():
    with streaming(Tokens(is_free=True)) as server, Events(server) as events:
        events.ask(2, "Connection: keep-alive", version="1.0")
        status, headers = events.head()
        assert (status, "transfer-encoding" in headers) == (200, False)
        assert headers["connection"] == "close"
        assert events.file.read() == b'data: {"output": 0}\n\ndata: {"output": 1}\n\n'


def test_a_stop_lets_a_stream_come_to_its_end():
    tokens = Tokens()
    with streaming(tokens) as server, Events(server) as events:
        events.ask(2)
        events.head()
        assert events.next() == {"output": 0}
        tokens.go.release()
        server.stop()
        assert [events.next(), events.next()] == [{"output": 1}, None]
        assert is_ended(events.socket)


def test_the_body_of_a_stream_counts_until_its_end():
    tokens = Tokens()
    body = json.dumps({"input": 2}).encode()
    with streaming(tokens, max_bodies=len(body)) as server, Events(server) as events:
        events.ask(2)
        events.head()
        assert events.next() == {"output": 0}
        assert send(server, "POST", PATH, body)[0] == 503
        tokens.go.release(2)
        assert [events.next(), events.next()] == [{"output": 1}, None]
        assert send(server, "POST", PATH, body)[0] == 200


def test_the_body_of_a_client_that_went_away_counts_no_longer():
    tokens = Tokens()
    body = json.dumps({"input": 9}).encode()
    with streaming(tokens, max_bodies=len(body)) as server:
        with Events(server) as events:
            events.ask(9)
            events.head()
            assert events.next() == {"output": 0}
        while server.model("m").admission.under_way:
            pass
        tokens.go.release(1000)
        assert send(server, "POST", PATH, body)[0] == 200
