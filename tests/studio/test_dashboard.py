"""The server of the page, asked by a client without a browser."""

import contextlib
import http.client
import itertools
import json
import queue
import threading
from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from modelflow.errors import ConfigError
from modelflow.studio.dashboard import Dashboard
from tests.programs import LIMIT
from tests.studio.moments import OUTLINE, moment


class Flow:
    """A flow with snapshots from the test; counts its readers."""

    def __init__(self):
        self.looks = queue.SimpleQueue()
        self.moments = queue.SimpleQueue()
        self.last = moment(0.5)

    def look(self):
        self.looks.put(None)
        with contextlib.suppress(queue.Empty):
            self.last = self.moments.get_nowait()
        if isinstance(self.last, Exception):
            raise self.last
        return self.last


@contextlib.contextmanager
def asked(page, path="/events", token=None):
    """Yields the reply to a request, whose body may still be incomplete."""
    where = urlsplit(page.url)
    query = where.query if token is None else f"token={token}"
    client = http.client.HTTPConnection(where.hostname, where.port, timeout=LIMIT)
    with contextlib.closing(client):
        client.request("GET", f"{path}?{query}")
        yield client.getresponse()


def events(answer):
    """Yields the events of a reply, each as its name and value."""
    name = ""
    for line in answer:
        key, _, value = line.decode().rstrip("\n").partition(": ")
        if key == "event":
            name = value
        elif key == "data":
            yield name, json.loads(value)


@pytest.fixture
def flow():
    return Flow()


def test_a_viewer_gets_the_picture_once_and_then_frames(flow):
    with Dashboard(flow.look) as page, asked(page) as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        told = events(answer)
        assert next(told)[0] == "picture"
        name, frame = next(told)
        assert (name, frame["name"], frame["seconds"]) == ("frame", "faces", 0.5)
        flow.moments.put(moment(1.0, rows=7))
        for name, frame in told:
            assert name == "frame"
            if frame["nodes"][0]["rows"] == 7:
                break


def test_another_graph_is_drawn_anew(flow):
    with Dashboard(flow.look, every=0.01) as page, asked(page) as answer:
        told = events(answer)
        next(told)
        other = replace(OUTLINE, nodes=OUTLINE.nodes[:2], edges=OUTLINE.edges[:1])
        flow.moments.put(replace(moment(1.0), outline=other))
        picture = next(value for name, value in told if name == "picture")
    assert [box["name"] for box in picture["boxes"]] == ["input", "decode"]


def test_nobody_looks_at_a_flow_that_nobody_watches(flow):
    with Dashboard(flow.look, every=0.0) as page:
        with asked(page) as answer:
            next(events(answer))
        threads = [thread.name for thread in threading.enumerate()]
        assert "modelflow-studio/board" in threads
        board = page._board
        # a client that has gone is forgotten, and the thread waits without a limit
        with board._changed:
            assert board._changed.wait_for(lambda: not board._watches, LIMIT)
        before = flow.looks.qsize()
        for _ in range(20):  # meanwhile the flow could be read a thousand times
            with asked(page, "/") as answer:
                assert answer.status == 200
    assert flow.looks.qsize() - before <= 2  # a read in progress, and a read at the end
    assert "modelflow-studio/board" not in [thread.name for thread in threading.enumerate()]


def test_the_history_grows_without_a_viewer_and_is_sent_once(flow, monkeypatch):
    for module in ("history", "snapshot_feed"):
        monkeypatch.setattr(f"modelflow.studio.{module}.SAMPLE_SECONDS", 0.01)
    for second in range(1, 9):
        flow.moments.put(moment(float(second), rows=7 * second))
    with Dashboard(flow.look, every=0.01) as page:
        for _ in range(9):
            flow.looks.get(timeout=LIMIT)
        with asked(page) as answer:
            told = list(itertools.islice(events(answer), 8))
    names = [name for name, _ in told]
    assert names.count("history") == 1
    assert names.index("history") < names.index("frame")
    samples = told[names.index("history")][1]
    assert [rate for _, rate, *_ in samples[:7]] == 7 * [7.0]


def test_two_viewers_see_the_same(flow):
    with Dashboard(flow.look) as page, asked(page) as one, asked(page) as other:
        assert next(events(one)) == next(events(other))


def test_the_end_shows_how_it_stood(flow):
    with Dashboard(flow.look) as page, asked(page) as answer:
        told = events(answer)
        next(told)
        flow.moments.put(moment(9.0, rows=90))
        with contextlib.ExitStack() as later:
            closing = threading.Thread(target=page._board.close)
            closing.start()
            later.callback(closing.join)
            found = list(told)
    assert found[-1] == ("end", {})
    assert found[-2][1]["nodes"][0]["rows"] == 90


def test_a_flow_that_does_not_answer_is_told_and_looked_at_again(flow):
    flow.moments.put(ConfigError("nobody answers at 9100"))
    with Dashboard(flow.look) as page, asked(page) as answer:
        told = events(answer)
        assert next(told) == ("lost", "nobody answers at 9100")
        flow.moments.put(moment(1.0))
        assert next(event for event in told if event[0] != "lost")[0] == "picture"


def test_a_flow_that_does_not_answer_is_not_waited_for_at_the_end(flow):
    flow.moments.put(ConfigError("nobody answers at 9100"))
    with Dashboard(flow.look, every=LIMIT) as page, asked(page) as answer:
        told = events(answer)
        assert next(told)[0] == "lost"
        closing = threading.Thread(target=page._board.close)
        closing.start()
        assert list(told) == [("end", {})]
        closing.join()
        assert flow.looks.qsize() == 1


def test_a_flow_that_has_begun_anew_is_shown_from_its_own_beginning(flow):
    flow.moments.put(moment(60.0, rows=6000))
    with Dashboard(flow.look) as page, asked(page) as answer:
        told = events(answer)
        next(told)
        flow.moments.put(moment(2.0, rows=20))
        frames = (value for name, value in told if name == "frame")
        rates = [next(frames)["nodes"][0]["rate"] for _ in range(3)]
    assert min(rates) >= 0
    assert rates[-1] == 10.0 or rates[1] == 10.0


def test_a_fault_of_the_page_itself_is_told_and_logged(flow, caplog):
    flow.moments.put(ZeroDivisionError("a fault"))
    with Dashboard(flow.look) as page, asked(page) as answer:
        found = list(events(answer))
    assert found == [
        ("lost", "the figures cannot be shown: ZeroDivisionError: a fault"),
        ("end", {}),
    ]
    assert "ZeroDivisionError" in caplog.text


def test_what_is_refused_says_why(flow):
    with Dashboard(flow.look) as page:
        with asked(page, token="wrong") as answer:
            told = json.loads(answer.read())["error"]["message"]
            assert (answer.status, "has no token, or a wrong one" in told) == (403, True)
        with asked(page, "/etc/passwd") as answer:
            assert answer.status == 404
        with asked(page, "/app.js", token="") as answer:
            assert answer.status == 200
            assert answer.headers["content-security-policy"].startswith("default-src 'self'")
            assert answer.headers["cache-control"] == "no-store"


def test_an_address_that_is_taken_is_an_error_and_leaves_nothing(flow):
    with Dashboard(flow.look) as page:
        port = urlsplit(page.url).port
        with pytest.raises(OSError, match="cannot listen there"), Dashboard(flow.look, port=port):
            pass
