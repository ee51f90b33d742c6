"""A real server as what is loaded."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from modelflow.errors import ConfigError
from modelflow.tune.http_target import HttpTarget
from modelflow.tune.load import Load


@pytest.fixture
def server():
    """Answers ``/ok`` with what was sent, ``/busy`` with 503, ``/cut`` with nothing."""
    seen, lock, hold = [], threading.Lock(), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args):
            pass

        def do_GET(self):
            self.answer(b"")

        def do_POST(self):
            self.answer(self.rfile.read(int(self.headers["Content-Length"])))

        def answer(self, body):
            with lock:
                seen.append(
                    (self.command, self.path, dict(self.headers), body, self.client_address)
                )
            if self.path == "/cut":
                self.close_connection = True
                return
            if self.path == "/hold":
                hold.wait(60)
            self.send_response(503 if self.path == "/busy" else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    running.daemon_threads = True
    running.seen, running.hold = seen, hold
    running.url = f"http://127.0.0.1:{running.server_address[1]}"
    thread = threading.Thread(target=running.serve_forever)
    thread.start()
    yield running
    hold.set()
    running.shutdown()
    thread.join()
    running.server_close()


def test_bodies_go_in_turns_on_connections_that_are_kept(server):
    bodies = [(b"a", "text/plain"), (b"{}", "application/json")]
    with HttpTarget(f"{server.url}/ok?x=1", bodies, connections=3, headers={"X-A": "b"}) as target:
        found = Load(target).closed(3, 0.3)
    assert set(found.outcomes) == {"ok"}
    assert {(method, path) for method, path, *_ in server.seen} == {("POST", "/ok?x=1")}
    assert {body for *_, body, _ in server.seen} == {b"a", b"{}"}
    assert all(headers["X-A"] == "b" for _, _, headers, *_ in server.seen)
    kinds = {body: headers["Content-Type"] for _, _, headers, body, _ in server.seen}
    assert kinds == {b"a": "text/plain", b"{}": "application/json"}
    assert len({address for *_, address in server.seen}) == 3
    assert len(server.seen) >= found.outcomes["ok"] > 3


@pytest.mark.parametrize(
    ("path", "outcome"), [("/busy", "HTTP 503"), ("/cut", "RemoteDisconnected")]
)
def test_what_is_refused_or_cut_off_is_told_by_name(server, path, outcome):
    with HttpTarget(server.url + path, [], connections=2) as target:
        found = Load(target).closed(2, 0.2)
    assert set(found.outcomes) == {outcome}
    assert found.latencies == []
    assert server.seen[0][0] == "GET"


def test_nobody_there_is_an_outcome():
    with HttpTarget("http://127.0.0.1:1/", [], connections=1) as target:
        found = Load(target).closed(1, 0.1)
    assert set(found.outcomes) == {"ConnectionRefusedError"}


def test_more_than_there_are_connections_wait_and_are_not_lost(server):
    with HttpTarget(f"{server.url}/ok", [], connections=1) as target:
        found = Load(target).open(200.0, 0.5)
    assert found.outcomes["ok"] + found.unsent > 20


def test_a_block_that_raises_waits_for_no_answer(server):
    with pytest.raises(KeyboardInterrupt), HttpTarget(server.url + "/hold", [], connections=2) as t:
        calls = [t.make(number, lambda _: None) for number in range(2)]
        assert t.submit(calls, lambda: None) == []
        while len(server.seen) < 2:
            pass
        raise KeyboardInterrupt
    assert not [one for one in threading.enumerate() if one.name.startswith("modelflow-load/")]


def test_a_url_is_wanted():
    with pytest.raises(ConfigError, match="ftp://x: expected a URL that begins with http://"):
        HttpTarget("ftp://x", [], connections=1)
