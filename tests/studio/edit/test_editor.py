"""The server of the editor, asked by a client without a browser."""

import contextlib
import http.client
import json
import threading
import uuid
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from modelflow.errors import ConfigError
from modelflow.studio.edit.editor import EditHandler, Editor
from tests.programs import LIMIT
from tests.runtime.fake_clock import FakeClock

DOT = "digraph g {\n    input[type=input]\n    output[type=output]\n    input -> output\n}\n"


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "graph.dot"
    path.write_text(DOT)
    return path


@pytest.fixture
def editor(path):
    with Editor(path) as editor:
        yield editor


def asked(editor, task, body=None, *, method="POST", token=None, headers=()):
    where = urlsplit(editor.url)
    query = where.query if token is None else f"token={token}"
    client = http.client.HTTPConnection(where.hostname, where.port, timeout=LIMIT)
    with contextlib.closing(client):
        sent = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
        client.request(method, f"/api/{task}?{query}", sent, dict(headers))
        answer = client.getresponse()
        return answer.status, json.loads(answer.read())


def test_a_file_is_opened_edited_and_saved(editor, path):
    status, opened = asked(editor, "open")
    assert (status, opened["text"], opened["saved"]) == (200, DOT, DOT)
    move = {"do": "move", "places": {"input": [50, 60]}}
    status, view = asked(editor, "edit", {"text": DOT, "operations": [move]})
    assert status == 200
    assert view["text"] == DOT.replace("[type=input]", '[type=input, pos="50,-60!"]')
    status, found = asked(editor, "save", {"text": view["text"], "mark": opened["mark"]})
    assert status == 200
    assert path.read_text() == view["text"]
    assert asked(editor, "stand")[1]["mark"] == found["mark"]


def middles(view):
    return {
        box["name"]: [box["x"] + box["width"] / 2, box["y"] + box["height"] / 2]
        for box in view["picture"]["boxes"]
    }


def edited(editor, view, *operations, places=None):
    """Returns the view after operations, with the places of the last view."""
    places = middles(view) if places is None else places
    body = {"text": view["text"], "operations": operations, "places": places}
    status, view = asked(editor, "edit", body)
    assert status == 200
    return view


def test_nodes_stay_where_the_last_picture_had_them(editor):
    places = {"input": [300, 400], "output": [800, 250]}
    _, view = asked(editor, "look", {"text": DOT, "places": places})
    assert middles(view) == places
    assert not any(box["pinned"] for box in view["picture"]["boxes"])
    add = {"do": "add", "name": "mean", "attributes": {}}
    view = edited(editor, view, add, add)
    assert view["added"] == ["mean", "mean_2"]
    assert places.items() <= middles(view).items()


def test_a_node_with_another_name_stays(editor):
    places = {"input": [300, 400], "output": [800, 250]}
    _, view = asked(editor, "look", {"text": DOT, "places": places})
    rename = {"do": "rename", "node": "input", "name": "image"}
    assert middles(edited(editor, view, rename))["image"] == [300, 400]


def test_a_node_that_has_lost_its_position_moves(editor):
    _, view = asked(editor, "look", {"text": DOT})
    home = middles(view)
    moved = edited(editor, view, {"do": "move", "places": {"output": [900, 100]}})
    assert middles(moved)["output"] == [900, 100]
    free = edited(editor, moved, {"do": "unset", "node": "output", "key": "pos"})
    assert middles(free) == home
    places = {"input": [300, 400], "output": [800, 250]}
    assert middles(edited(editor, view, {"do": "tidy"}, places=places)) == home


@pytest.mark.parametrize("places", [[], {"input": 1}, {"input": [1, "2"]}, {"input": [1, 1e9]}])
def test_places_that_no_page_sends_are_refused(editor, places):
    status, found = asked(editor, "look", {"text": DOT, "places": places})
    assert (status, found["error"]) == (400, "places: expected [x, y] by node")


def test_what_somebody_else_wrote_is_given_back(editor, path):
    _, opened = asked(editor, "open")
    path.write_text("theirs")
    status, found = asked(editor, "save", {"text": "mine", "mark": opened["mark"]})
    assert (status, found["text"]) == (409, "theirs")
    assert path.read_text() == "theirs"
    _, compared = asked(editor, "diff", {"before": "theirs\n", "text": "mine\n"})
    assert compared["diff"].splitlines()[-2:] == ["-theirs", "+mine"]
    assert asked(editor, "save", {"text": "mine", "mark": found["mark"]})[0] == 200


def test_a_new_file_begins_with_an_input_and_an_output(tmp_path):
    for name in ("new.toml", "7 new.dot"):
        path = tmp_path / name
        with Editor(path) as editor:
            _, opened = asked(editor, "open")
            assert (opened["findings"], opened["mark"], opened["saved"]) == ([], "", "")
            assert not path.exists()
            assert asked(editor, "save", {"text": opened["text"], "mark": ""})[0] == 200
        assert path.read_text() == opened["text"]


@pytest.mark.parametrize("task", ["open", "look", "edit", "copy", "units", "save", "diff", "stand"])
def test_without_the_token_nothing_is_done(editor, task, path):
    assert asked(editor, task, {"text": "mine", "mark": ""}, token="no")[0] == 403
    assert path.read_text() == DOT


@pytest.mark.parametrize(
    ("headers", "method", "status"),
    [
        ({"origin": "http://evil.example"}, "POST", 403),
        ({"host": "evil.example"}, "POST", 421),
        ({}, "GET", 405),
    ],
)
def test_a_page_of_another_site_changes_nothing(editor, headers, method, status):
    assert asked(editor, "open", method=method, headers=headers)[0] == status


@pytest.mark.parametrize(
    ("task", "body", "status", "said"),
    [
        ("look", b"{", 400, "the body is no JSON"),
        ("look", b"[" * 100_000, 400, "the body is no JSON"),
        ("look", b"[]", 400, "expected an object"),
        ("look", {"text": 1}, 400, "text: got 1; expected a text"),
        ("edit", {"text": DOT, "operations": {}}, 400, "expected a list of objects"),
        ("edit", {"text": DOT, "operations": [{"do": "x"}]}, 422, "operation 'x'"),
        ("edit", {"text": "digraph {", "operations": []}, 422, "the end of the text"),
        ("copy", {"text": DOT, "nodes": [1]}, 400, "expected a list of names"),
        ("nothing", {}, 404, "there is nothing at '/api/nothing'"),
    ],
)
def test_what_cannot_be_done_is_said(editor, task, body, status, said):
    found = asked(editor, task, body)
    error = found[1]["error"]
    assert found[0] == status
    assert said in (error if isinstance(error, str) else error["message"])


def test_a_body_that_is_too_long_is_refused_unread(editor):
    where = urlsplit(editor.url)
    client = http.client.HTTPConnection(where.hostname, where.port, timeout=LIMIT)
    with contextlib.closing(client):
        client.putrequest("POST", f"/api/look?{where.query}")
        client.putheader("content-length", str(1 << 30))
        client.endheaders()
        assert client.getresponse().status == 413


def test_the_room_of_bodies_is_given_back(editor):
    body = {"text": DOT + " " * (8 << 20)}
    for _ in range(8):
        assert asked(editor, "look", body)[0] in (200, 422)


def test_the_units_of_the_graphs_folders_are_in_the_palette(tmp_path):
    folder = tmp_path / "units" / "mine"
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_text(
        '[base]\nname = "mine"\ntype = "python"\nentry = "mine@Mine"\ngroup_type = "Own"\n'
        '[input.input1]\nname = "in"\n[output.output1]\nname = "out"\n'
    )
    (folder / "mine.py").write_text("class Mine: pass\n")
    path = tmp_path / "graph.toml"
    text = f"[driver]\ndir = ['units']\n[graph]\ngraphconf = '''{DOT}'''\n"
    with Editor(path) as editor:
        _, catalog = asked(editor, "units", {"text": text})
        _, other = asked(editor, "units", {"text": "[driver"})
    names = {unit["name"] for unit in catalog["units"]}
    assert {"mine", "resize"} <= names
    assert "mine" not in {unit["name"] for unit in other["units"]}
    assert {"device", "batch_size", "threads"} <= {one["name"] for one in catalog["settings"]}


@pytest.mark.parametrize("name", ["graph.yaml", "graph.json", "graph.txt"])
def test_forms_that_are_not_edited_are_refused_at_once(tmp_path, name):
    with pytest.raises(ConfigError, match=r"TOML|suffix"):
        Editor(tmp_path / name)


def test_nothing_is_left_behind(path):
    before = set(threading.enumerate())
    with Editor(path) as editor:
        asked(editor, "open")
    assert set(threading.enumerate()) == before
    assert [one.name for one in Path(path.parent).iterdir()] == ["graph.dot"]


HANGING = """
import builtins
import modelflow

began, go = builtins.modelflow_test_of_the_editor
began.set()
go.wait()


@modelflow.flowunit
def echo(item):
    return item
"""


@pytest.fixture
def hanging(tmp_path, monkeypatch):
    """Yields a graph whose unit hangs in its import, and two events: begun, and may end."""
    module = f"hangs_{uuid.uuid4().hex}"  # a name that no other import of this process has used
    (tmp_path / f"{module}.py").write_text(HANGING)
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "graph.dot"
    path.write_text(
        f'digraph {{ i [type=input] o [type=output] echo [flowunit="{module}:echo"] '
        "i -> echo -> o }"
    )
    events = threading.Event(), threading.Event()
    monkeypatch.setattr("builtins.modelflow_test_of_the_editor", events, raising=False)
    yield path, *events
    events[1].set()


class Asking:
    """A request for a run of a graph, on a thread of its own."""

    def __init__(self, editor, path):
        run = {"text": path.read_text(), "samples": {"i": [{"text": "1"}]}}
        self._answers = []
        self._thread = threading.Thread(
            target=lambda: self._answers.append(asked(editor, "run", run))
        )
        self._thread.start()

    def answer(self):
        self._thread.join(LIMIT)
        (answer,) = self._answers
        return answer


@pytest.fixture
def clock(monkeypatch):
    """Returns the clock of an editor's work."""
    clock = FakeClock()
    monkeypatch.setattr(
        "modelflow.studio.edit.editor.EditHandler", partial(EditHandler, clock=clock)
    )
    return clock


def clerks():
    return {one for one in threading.enumerate() if one.name == "modelflow-studio/clerk"}


def test_what_does_not_return_is_given_up_and_the_next_requests_are_answered(hanging, clock):
    path, began, go = hanging
    with Editor(path) as editor:
        (waiting,) = clerks()
        asking = Asking(editor, path)
        assert began.wait(LIMIT)
        clock.until_sleeping()
        (left_alone,) = clerks() - {waiting}
        clock.advance(60)
        status, found = asking.answer()
        assert status == 504
        assert found["error"].startswith("/api/run took longer than 60 s and was given up; it may ")
        assert asked(editor, "stand")[0] == 200
        assert asked(editor, "look", {"text": DOT})[0] == 200
        go.set()
        left_alone.join(LIMIT)
        assert not left_alone.is_alive()
        assert asked(editor, "stand")[0] == 200
        trial = asked(editor, "open")[1]["trial"]
        assert trial["state"] == "none"  # the call has returned too late to begin a run


def test_the_editor_ends_while_a_unit_does_not_return(hanging, clock):
    path, began, _ = hanging
    with Editor(path) as editor:
        asking = Asking(editor, path)
        assert began.wait(LIMIT)
        clock.until_sleeping()
        ending = threading.Thread(target=editor.__exit__, args=(None, None, None))
        ending.start()
        clock.until_deadline(clock.now() + 5)
        clock.advance(5)
        ending.join(LIMIT)
        assert not ending.is_alive()
        assert asking.answer() == (503, {"error": "the editor is being closed"})


def test_the_editor_ends_while_a_unit_of_a_run_does_not_return(hanging, tmp_path, monkeypatch):
    path, began, go = hanging
    folder = tmp_path / "units" / "echo"
    folder.mkdir(parents=True)
    (folder / "echo.toml").write_text(
        '[base]\nname = "echo"\ntype = "python"\nentry = "echo_later@Echo"\n'
        '[input.input1]\nname = "in"\n[output.output1]\nname = "out"\n'
    )
    (folder / "echo_later.py").write_text(f"{HANGING}\nclass Echo: pass\n")
    path = tmp_path / "run.toml"
    path.write_text(
        '[driver]\ndir = ["units"]\n[graph]\ngraphconf = "digraph { i [type=input] '
        'o [type=output] i -> echo -> o }"\n'
    )
    monkeypatch.setattr("modelflow.studio.edit.trial.trials._LAST_SECONDS", 0.01)
    with Editor(path) as editor:
        assert Asking(editor, path).answer()[0] == 200
        assert began.wait(LIMIT)
    (left_alone,) = (t for t in threading.enumerate() if t.name == "modelflow-studio/trial")
    assert left_alone.daemon
    go.set()
    left_alone.join(LIMIT)
