"""Recordings that are begun and ended from a page, asked for without a browser."""

import contextlib
import gzip
import http.client
import json
import os
import tempfile
from functools import partial
from urllib.parse import urlsplit

import pytest

import modelflow
from modelflow.errors import ModelflowError
from modelflow.profile.snapshot import Snapshot
from modelflow.studio.dashboard import Dashboard
from modelflow.studio.recorder import Recorder
from tests.programs import LIMIT

GRAPH = "digraph { input[type=input] half output[type=output] input -> half -> output }"


@modelflow.flowunit
def half(number):
    """Halves even numbers."""
    if number % 2:
        raise modelflow.BadRequest(f"{number} is odd")
    return number // 2


@pytest.fixture
def flow():
    with modelflow.Flow(GRAPH, units=[half]) as flow:
        yield flow


@pytest.fixture
def recorder(flow):
    recorder = Recorder(flow.record)
    with contextlib.closing(recorder):
        yield recorder


def told(recorder):
    name, data, *_ = recorder.describe_state().decode().split("\n")
    assert name == "event: recording"
    return json.loads(data.removeprefix("data: "))


def test_a_recording_has_its_trace_and_its_requests(flow, recorder):
    assert told(recorder) == {"on": False, "has": False, "slices": 0, "version": 0, "problem": ""}
    recorder.start()
    assert told(recorder)["on"]
    for number in (2, 3, 4):
        with contextlib.suppress(modelflow.FlowUnitError):
            flow.infer(number)
    recorder.stop()
    found = told(recorder)
    assert (found["on"], found["has"], found["slices"] > 0) == (False, True, True)
    requests = recorder.requests()
    assert len(requests) == 3  # the sampled request, and two of the slowest
    assert [one["seconds"] for one in requests] == sorted(
        (one["seconds"] for one in requests), reverse=True
    )
    for request in requests:
        (part,) = request["parts"]
        assert (part["node"], part["rows"], part["batch"]) == ("half", 1, 1)
        assert 0 <= part["start"] <= part["end"] <= request["seconds"]
    assert sum("3 is odd" in one["parts"][0]["error"] for one in requests) == 1
    names = {event.get("name") for event in json.loads(gzip.decompress(recorder.trace()))}
    assert {"half", "in flight"} <= names


def test_another_recording_takes_the_place_of_the_last(flow, recorder):
    recorder.start()
    flow.infer(2)
    recorder.start()  # the recording continues
    recorder.stop()
    assert len(recorder.requests()) == 1
    recorder.start()
    assert (recorder.requests(), told(recorder)["on"]) == ([], True)


def test_a_flow_that_somebody_else_records_is_left_to_them(flow, recorder, tmp_path):
    with flow.record(tmp_path / "mine.json") as mine:
        recorder.start()
        found = told(recorder)
        assert (found["on"], "being recorded already" in found["problem"]) == (False, True)
        recorder.stop()
        flow.infer(2)
    assert mine.slices > 0
    with pytest.raises(ModelflowError, match="nothing has been recorded"):
        recorder.trace()


def test_a_recording_that_ended_by_itself_stops_nobody_elses(flow, tmp_path):
    first = flow.record(tmp_path / "first.json", most_seconds=0.0).start()
    first._thread.join()
    assert not first.is_writing
    with flow.record(tmp_path / "second.json", every=1) as second:
        first.stop()
        flow.infer(2)
    assert second.slices > 0


def test_nothing_is_left_when_the_page_is_closed(flow):
    before = set(os.listdir(tempfile.gettempdir()))
    with Dashboard.of(flow) as page:
        assert ask(page, "POST", "/record")[0] == 200
        flow.infer(2)
        # No file exists while recording either. Therefore nothing is left, however the process
        # ends.
        assert not any("modelflow" in name for name in set(os.listdir("/tmp")) - before)
        assert ask(page, "GET", "/trace.json.gz")[0] == 200
    flow.infer(2)


def ask(page, method, path, token=None):
    where = urlsplit(page.url)
    query = where.query if token is None else f"token={token}"
    client = http.client.HTTPConnection(where.hostname, where.port, timeout=LIMIT)
    with contextlib.closing(client):
        client.request(method, f"{path}?{query}")
        answer = client.getresponse()
        return answer.status, answer.read(), answer.headers


def test_a_page_that_may_not_record_is_told_so(flow):
    with Dashboard(partial(Snapshot.of_flow, flow)) as page:
        assert ask(page, "POST", "/record")[0] == 404


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/record"), ("POST", "/halt"), ("GET", "/requests"), ("GET", "/trace.json.gz")],
)
def test_who_may_record_is_asked_for_the_token(flow, method, path):
    with Dashboard.of(flow) as page:
        assert ask(page, method, path, token="no")[0] == 403
        other = "GET" if method == "POST" else "POST"
        assert ask(page, other, path)[0] == 405
        status, body, _ = ask(page, method, path)
        assert status == (404 if path == "/trace.json.gz" else 200)
        assert (b"nothing has been recorded" in body) == (status == 404)
