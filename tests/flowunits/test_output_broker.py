"""Tests of results to real webhooks and files: retries, failures, order."""

import contextlib
import json
import socket
import threading
from http.server import BaseHTTPRequestHandler
from typing import ClassVar

import pytest

import modelflow
from flowunits import output_broker
from flowunits.output_broker import targets
from modelflow import Buffer
from modelflow.errors import FlowFailed
from modelflow.testing import run_unit
from tests.flowunits.local_server import LocalServer, Quiet

GRAPH = """digraph {{
    input [type=input]
    send [flowunit=output_broker, brokers="{brokers}"{options}]
    input -> send
}}"""


class Hook(LocalServer):
    """A web server that records its requests, and rejects some."""

    def __init__(self, refuses=lambda number, body: False):
        self.bodies = []
        self.headers = []
        hook = self

        class Handler(Quiet, BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                hook.headers.append(dict(self.headers))
                is_refused = refuses(len(hook.headers), body)
                if not is_refused:
                    hook.bodies.append(body)
                self.send_response(503 if is_refused else 204)
                self.end_headers()

        super().__init__(Handler)

    @property
    def url(self):
        return f"{self.root}/hook"


def broker(kind, name=None, **cfg):
    return {"type": kind, "name": name or kind, "cfg": cfg}


def graph(brokers, options=""):
    return GRAPH.format(brokers=json.dumps(brokers).replace('"', '\\"'), options=options)


def send(values, brokers, options="", context=None):
    """Sends values; returns the errors that were recorded."""
    with modelflow.Flow(graph(brokers, options)) as flow:
        stream = flow.create_stream_io()
        stream.context.update(context or {})
        for value in values:
            stream.send("input", value)
        stream.close_input()
        assert stream.wait(30)
        return [str(error) for error in stream.errors]


def test_results_go_to_a_webhook():
    with Hook() as hook:
        values = [b"bytes", "text", {"a": [1, 2]}]
        headers = {"X-Own": "7"}
        assert not send(values, [broker("webhook", url=hook.url, headers=headers)])
    assert hook.bodies == [b"bytes", b"text", b'{"a": [1, 2]}']
    assert {found["X-Own"] for found in hook.headers} == {"7"}
    assert hook.headers[2]["Content-Type"] == "application/json"


def test_results_go_to_files(tmp_path):
    brokers = [broker("file", path=str(tmp_path / "{kind}_{index:03d}.json"))]
    values = [Buffer({"n": n}, {"kind": "k"}) for n in range(3)]
    assert not send(values, brokers)
    found = sorted(tmp_path.iterdir())
    assert [path.name for path in found] == ["k_000.json", "k_001.json", "k_002.json"]
    assert [json.loads(path.read_text())["n"] for path in found] == [0, 1, 2]


RETRY = ", retry_count_limit=5, retry_interval_base_ms=1, retry_interval_increment_ms=0"


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_what_is_refused_is_tried_again(mode):
    with Hook(lambda number, body: number % 2 == 1) as hook:
        values = [str(n).encode() for n in range(6)]
        assert not send(values, [broker("webhook", url=hook.url)], f", mode={mode}{RETRY}")
    assert sorted(hook.bodies) == values
    if mode == "sync":
        assert hook.bodies == values


def test_in_order_nothing_overtakes_what_is_tried_again():
    tries = []

    def refuses(number, body):
        tries.append(body)
        return body == b"2" and tries.count(b"2") < 4

    with Hook(refuses) as hook:
        values = [str(n).encode() for n in range(5)]
        assert not send(values, [broker("webhook", url=hook.url)], RETRY)
    assert hook.bodies == values


def test_what_is_refused_too_often_is_given_up_and_told():
    with Hook(lambda number, body: body == b"1") as hook:
        values = [str(n).encode() for n in range(3)]
        (error,) = send(values, [broker("webhook", url=hook.url)], RETRY)
    assert hook.bodies == [b"0", b"2"]
    assert "answered 503" in error
    assert "given up: 'webhook', after 6 attempts: http" in error


def test_a_full_queue_refuses_results():
    with Hook(lambda number, body: True) as hook:
        options = ", queue_size=2, retry_count_limit=3, retry_interval_base_ms=300"
        values = [str(n).encode() for n in range(4)]
        errors = send(values, [broker("webhook", url=hook.url)], options)
    assert sum("2 results wait for another attempt" in error for error in errors) == 2
    assert sum("given up" in error for error in errors) == 2


def test_the_meta_chooses_targets(tmp_path):
    brokers = [broker("file", name, path=str(tmp_path / name / "{index}")) for name in "abc"]
    values = [b"x", Buffer(b"y", {"output_broker_names": "a|c"})]
    (error,) = send([*values, Buffer(b"z", {"output_broker_names": "d"})], brokers)
    assert "got output_broker_names='d'; the targets are: a, b, c" in error
    found = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.glob("*/*"))
    assert found == ["a/0", "a/1", "b/0", "c/0", "c/1"]


def test_a_session_has_targets_of_its_own(tmp_path):
    own = [broker("file", path=str(tmp_path / "own"))]
    other = [broker("file", path=str(tmp_path / "other"))]
    assert not send([b"x"], other, context={"brokers": own})
    assert [path.name for path in tmp_path.iterdir()] == ["own"]


def test_a_stop_does_not_wait_for_endless_retries():
    with Hook(lambda number, body: True) as hook:
        options = ", retry_count_limit=-1, retry_interval_base_ms=3600000"
        options += ", retry_interval_limit_ms=3600000"
        flow = modelflow.Flow(graph([broker("webhook", url=hook.url)], options)).start()
        stream = flow.create_stream_io()
        stream.send("input", b"x")
        stream.close_input()
        flow.stop(drain=False)


class Plugged:
    """A target from a plug-in."""

    taken: ClassVar[list[tuple[str, bytes]]] = []

    def __init__(self, cfg):
        self._to = cfg["to"]

    def send(self, data, content_type, meta):
        self.taken.append((self._to, data))


def test_a_plug_in_takes_results(monkeypatch):
    from importlib.metadata import EntryPoint

    point = EntryPoint("plugged", "tests.flowunits.test_output_broker:Plugged", targets.GROUP)
    monkeypatch.setattr(targets, "entry_points", lambda group: [point])
    assert not send([b"x"], [broker("plugged", to="there")])
    from tests.flowunits.test_output_broker import Plugged as Loaded

    assert Loaded.taken == [("there", b"x")]


@pytest.mark.parametrize(
    ("brokers", "what"),
    [
        ("{", "no JSON"),
        ("[]", "expected a list of objects"),
        ("[1]", "brokers[0]: got 1"),
        ('[{"type": "webhok"}]', "got the type 'webhok'; did you mean 'webhook'"),
        ('[{"type": "file", "cfg": {"pat": "x"}}]', "got the keys ['pat']; expected path"),
        ('[{"type": "webhook", "cfg": {"url": "file:///x"}}]', "expected http://... or https"),
        ('[{"type": "file", "cfg": {"path": "a"}}, {"type": "file"}]', "another one called 'file'"),
    ],
)
def test_targets_that_do_not_fit_say_why(brokers, what):
    with pytest.raises(ValueError, match="brokers") as raised:
        run_unit(output_broker.SPEC, {"in_output_info": [b"x"]}, brokers=brokers)
    assert what in str(raised.value)


def test_a_wrong_target_stops_the_start():
    with pytest.raises(FlowFailed):
        modelflow.Flow(GRAPH.format(brokers="[]", options="")).start()


def test_an_answer_without_end_holds_nobody_up():
    class Endless(Quiet, BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()
            with contextlib.suppress(ConnectionError):
                while True:
                    self.wfile.write(b"x" * (1 << 16))

    with LocalServer(Endless) as server:
        assert not send([b"x"], [broker("webhook", url=server.root)])


@pytest.mark.parametrize("status", [200, 302])
def test_an_answer_that_drips_is_given_up_in_time(status):
    done = threading.Event()

    class Dripping(Quiet, BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.wfile.write(b"HTTP/1.0 %d OK\r\n" % status)
            with contextlib.suppress(ConnectionError):
                while not done.wait(0.02):  # each read gets its byte in time
                    self.wfile.write(b"X")

    with LocalServer(Dripping) as server, contextlib.ExitStack() as stack:
        stack.callback(done.set)
        (error,) = send([b"x"], [broker("webhook", url=server.root, timeout_ms=100)])
    assert "the answer was not there in time" in error or "timed out" in error


def test_errors_hold_no_secrets_of_a_url():
    with Hook(lambda number, body: True) as hook:
        url = hook.url + "/secret?token=hush"
        (error,) = send([b"x"], [broker("webhook", url=url)])
    assert "answered 503" in error
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}/secret?token=hush"
    (refused,) = send([b"x"], [broker("webhook", url=url)])
    assert f"http://127.0.0.1:{port}: " in refused
    (odd,) = send([b"x"], [broker("webhook", url="http://127.0.0.1/secret token=hush")])
    for text in (error, refused, odd):
        assert not any(word in text for word in ("secret", "hush"))
