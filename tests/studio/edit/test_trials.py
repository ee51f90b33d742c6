"""Runs of a graph from the editor, asked for by a client without a browser."""

import base64
import contextlib
import http.client
import json
import threading
from pathlib import Path
from urllib.parse import urlsplit

import cv2
import numpy as np
import pytest

import modelflow
from modelflow.studio.edit.editor import Editor
from tests.programs import LIMIT
from tests.studio.edit.test_editor import asked
from tests.studio.test_dashboard import events

GRAPH = """[driver]
dir = ["units"]

[graph]
graphconf = '''digraph g {
    input[type=input]
    step[flowunit=step]
    output[type=output]
    input -> step -> output
}'''
"""
UNIT = """[base]
name = "step"
type = "python"
entry = "step@Step"
device = "cpu"
version = "1.0.0"
description = "A step."

[input.input1]
name = "in_data"

[output.output1]
name = "out_data"
"""
CODE = """import modelflow


class Step(modelflow.FlowUnit):
    def process(self, ctx):
        ctx.emit([{expression} for x in (buffer.data for buffer in ctx.input())])
"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "graph.toml"
    path.write_text(GRAPH)
    folder = tmp_path / "units" / "step"
    folder.mkdir(parents=True)
    (folder / "step.toml").write_text(UNIT)
    write(path, "len(x)")
    return path


def write(path, expression):
    code = CODE.replace("{expression}", expression)
    (path.parent / "units" / "step" / "step.py").write_text(code)


@pytest.fixture
def editor(path):
    with Editor(path) as editor:
        yield editor


def text(*texts):
    return {"input": [{"text": one} for one in texts]}


def run(editor, samples, graph=GRAPH, **more):
    return asked(editor, "run", {"text": graph, "samples": samples, **more})


def followed(editor):
    """Returns the events of a run until its end."""
    where = urlsplit(editor.url)
    client = http.client.HTTPConnection(where.hostname, where.port, timeout=LIMIT)
    with contextlib.closing(client):
        client.request("GET", f"/events?{where.query}")
        return list(events(client.getresponse()))


def passed(editor, node, output):
    return asked(editor, "passed", {"node": node, "output": output})[1]


def fetched(editor, path):
    where = urlsplit(editor.url)
    client = http.client.HTTPConnection(where.hostname, where.port, timeout=LIMIT)
    with contextlib.closing(client):
        client.request("GET", f"{path}?{where.query}")
        answer = client.getresponse()
        return answer.status, answer.headers["content-type"], answer.read()


def test_samples_go_through_the_graph_and_each_edge_shows_what_passed(editor):
    status, begun = run(editor, text("a", "bb", "ccc"))
    assert (status, begun["state"], begun["problem"], begun["repeated"]) == (
        200,
        "opening",
        "",
        False,
    )
    told = followed(editor)
    assert told[-1] == ("end", {})
    last = [value for name, value in told if name == "trial"][-1]
    assert (last["state"], last["results"], last["failed"]) == ("done", 3, 0)
    assert 0 < last["seconds"] < LIMIT
    frames = [value for name, value in told if name == "frame"]
    assert {node["node"]: node["rows"] for node in frames[-1]["nodes"]} == {"step": 3}
    assert passed(editor, "input", "input") == {
        "run": 1,
        "count": 3,
        "values": [
            {"kind": "text", "text": one, "length": len(one), "meta": {}}
            for one in ("ccc", "bb", "a")
        ],
    }
    values = passed(editor, "step", "out_data")["values"]
    assert [value["value"] for value in values] == [3, 2, 1]
    assert passed(editor, "nobody", "out") == {"run": 1, "count": 0, "values": []}


def test_files_and_json_are_samples_too(editor, path):
    file = {"base64": base64.b64encode(b"\x00\xff").decode(), "name": "two.bin"}
    run(editor, {"input": [file, {"json": "[1, 2, 3]"}]})
    followed(editor)
    first, second = reversed(passed(editor, "input", "input")["values"])
    assert first == {"kind": "bytes", "text": "00 ff", "length": 2, "meta": {"path": "two.bin"}}
    assert (second["kind"], second["value"]) == ("json", [1, 2, 3])


def test_an_error_is_shown_where_it_passed_and_counted_at_its_node(editor):
    run(editor, {"input": [{"json": "5"}, {"text": "good"}]})
    told = followed(editor)
    good, bad = passed(editor, "step", "out_data")["values"]
    assert good["value"] == 4
    assert bad["kind"] == "error"
    assert "object of type 'int' has no len()" in bad["text"]
    last = [value for name, value in told if name == "trial"][-1]
    assert (last["results"], last["failed"]) == (1, 1)
    frame = [value for name, value in told if name == "frame"][-1]
    assert frame["troubles"][0]["kinds"] == {"TypeError": 1}


def test_a_unit_is_run_as_its_file_is_by_now(editor, path):
    run(editor, text("four"))
    followed(editor)
    write(path, "x.upper()")
    run(editor, text("four"))
    followed(editor)
    assert passed(editor, "step", "out_data")["values"][0]["text"] == "FOUR"


def test_a_run_that_repeats_goes_on_until_it_is_stopped(editor):
    run(editor, text("a"), repeat=True)
    status, found = run(editor, text("a"))
    assert (status, found["error"]) == (422, "a run is under way; stop it first")
    assert asked(editor, "stop")[1]["state"] in ("stopping", "stopped")
    told = followed(editor)
    last = [value for name, value in told if name == "trial"][-1]
    assert (last["state"], last["problem"], last["repeated"]) == ("stopped", "", True)
    assert run(editor, text("a"))[0] == 200
    followed(editor)


def test_a_unit_that_does_not_open_ends_the_run_and_says_why(editor, path):
    opening = "    def open(self, config):\n        raise OSError('no such model')\n\n"
    code = CODE.replace("    def process", f"{opening}    def process")
    (path.parent / "units" / "step" / "step.py").write_text(code)
    run(editor, text("a"))
    last = [value for name, value in followed(editor) if name == "trial"][-1]
    assert last["state"] == "failed"
    assert "no such model" in last["problem"]
    assert "step" in last["problem"]


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ({}, "input 'input' has no sample"),
        ({"input": []}, "input 'input' has no sample"),
        ({"inptu": [{"text": "a"}]}, "no input 'inptu'; did you mean 'input'?"),
        ({"input": [{"json": "{"}]}, "'{' is no JSON"),
        ({"input": [{"base64": "%", "name": "a.jpg"}]}, "a.jpg did not arrive whole"),
        ({"input": [{"number": 1}]}, "expected text, json, or base64 and name"),
        ({"input": [{"text": ""}] * 1001}, "got 1001 samples; expected at most 1000"),
    ],
)
def test_samples_that_are_none_are_refused(editor, samples, message):
    status, found = run(editor, samples)
    assert status == 422
    assert message in found["error"]


def test_a_graph_that_is_wrong_is_not_run(editor):
    status, found = run(editor, text("a"), GRAPH.replace("flowunit=step", "flowunit=stp"))
    assert status == 422
    assert "did you mean 'step'" in found["error"]
    assert asked(editor, "passed", {"node": "input", "output": "input"})[1]["count"] == 0


def test_a_graph_without_inputs_runs_its_sources(tmp_path):
    (tmp_path / "a.txt").write_text("hello")
    path = tmp_path / "graph.dot"
    graph = (
        'digraph g { files[flowunit=file_source, path="*.txt"] save[flowunit=file_sink, '
        'path="{stem}.out"] files -> save }'
    )
    with Editor(path) as editor:
        status, found = run(editor, {}, graph, repeat=True)
        assert (status, "no input into which" in found["error"]) == (422, True)
        assert run(editor, {}, graph)[0] == 200
        followed(editor)
        assert passed(editor, "files", "out_data")["values"][0]["text"] == "hello"
    assert (tmp_path / "a.out").read_text() == "hello"


def test_an_argument_without_a_default_is_given_by_the_page(tmp_path):
    path = tmp_path / "graph.toml"
    graph = (
        "[args.mark]\ndesc = 'what to write'\n[args.path]\ndefault = '*.txt'\n[graph]\n"
        "graphconf = '''digraph g { files[flowunit=file_source, path=\"$path\"] "
        "save[flowunit=file_sink, path=\"$mark\"] files -> save }'''"
    )
    (tmp_path / "a.txt").write_text("hello")
    with Editor(path) as editor:
        view = asked(editor, "look", {"text": graph})[1]
        assert view["args"] == [
            {"name": "mark", "help": "what to write", "default": ""},
            {"name": "path", "help": "", "default": "*.txt"},
        ]
        assert "the argument has no default" in view["findings"][0]["message"]
        args = {"mark": f"{tmp_path}/{{stem}}.out", "gone": "unknown"}
        assert asked(editor, "look", {"text": graph, "args": args})[1]["findings"] == []
        assert run(editor, {}, graph, args=args)[0] == 200
        followed(editor)
        assert asked(editor, "look", {"text": graph, "args": {"mark": 1}})[0] == 400
    assert (tmp_path / "a.out").read_text() == "hello"


def test_images_are_shown_as_images(tmp_path):
    path = tmp_path / "graph.dot"
    graph = (
        "digraph g { input[type=input] decode[flowunit=image_decoder] mean[flowunit=mean, "
        'mean="1,2,3"] output[type=output] input -> decode -> mean -> output }'
    )
    image = np.full((20, 30, 3), (9, 8, 7), np.uint8)
    file = cv2.imencode(".png", image)[1].tobytes()
    sample = {"base64": base64.b64encode(file).decode(), "name": "a.png"}
    with Editor(path) as editor:
        run(editor, {"input": [sample]}, graph)
        followed(editor)
        (sent,) = passed(editor, "input", "input")["values"]
        assert fetched(editor, f"/value/{sent['picture']}") == (200, "image/png", file)
        (value,) = passed(editor, "decode", "out_image")["values"]
        assert (value["dtype"], value["shape"], value["mean"]) == ("uint8", [20, 30, 3], 8.0)
        status, kind, shown = fetched(editor, f"/value/{value['picture']}")
        assert (status, kind) == (200, "image/png")
        assert (cv2.imdecode(np.frombuffer(shown, np.uint8), cv2.IMREAD_COLOR) == image).all()
        (value,) = passed(editor, "mean", "out_data")["values"]
        assert (value["dtype"], value["min"], value["max"]) == ("float32", 4.0, 8.0)
        assert "picture" not in value
        assert fetched(editor, "/value/999")[0] == 404


def test_the_end_of_the_editor_ends_the_run(path):
    with Editor(path) as editor:
        run(editor, text("a"), repeat=True)
    assert [t.name for t in threading.enumerate() if t.name.startswith("modelflow")] == []


@pytest.mark.parametrize("what", ["sys.exit(3)", "raise KeyboardInterrupt", "1 / 0"])
def test_a_unit_that_ends_its_import_is_a_finding_and_no_end(tmp_path, monkeypatch, what):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "ending_unit.py").write_text(f"import sys\n{what}\n")
    text = 'digraph { a[type=input] u[flowunit="ending_unit:u"] b[type=output] a -> u -> b }'
    with Editor(tmp_path / "graph.dot") as editor:
        status, found = asked(editor, "look", {"text": text})
        if "Interrupt" in what:
            assert (status, "KeyboardInterrupt" in found["error"]) == (500, True)
        else:
            assert (status, "cannot import" in found["findings"][0]["message"]) == (200, True)
        assert asked(editor, "look", {"text": "digraph { a[type=input] }"})[0] == 200


def test_odd_requests_are_refused_in_words(editor):
    for nodes in ([["x"]], [None], "x"):
        body = {"text": GRAPH, "operations": [{"do": "remove", "nodes": nodes}]}
        status, found = asked(editor, "edit", body)
        assert (status, "expected a list of names" in found["error"]) == (422, True)
    status, found = asked(editor, "save", {"text": "\ud800", "mark": ""})
    assert (status, "cannot be written as UTF-8" in found["error"]) == (422, True)


def test_who_comes_late_is_told_how_a_run_ended(editor):
    run(editor, text("a"))
    assert followed(editor)[-1] == followed(editor)[-1] == ("end", {})
    (last,) = [value for name, value in followed(editor) if name == "trial"]
    assert (last["state"], last["problem"]) == ("done", "")


def test_nothing_is_told_of_a_run_that_never_was(editor):
    assert fetched(editor, "/events")[0] == 404
    assert asked(editor, "stop")[1]["state"] == "none"
    trial = asked(editor, "open")[1]["trial"]
    assert (trial["state"], trial["results"], trial["failed"]) == ("none", 0, 0)


@pytest.mark.parametrize("task", ["run", "stop", "passed", "begin", "unit"])
def test_without_the_token_nothing_is_done(editor, task):
    assert asked(editor, task, {}, token="no")[0] == 403


def test_a_new_unit_is_written_into_the_folder_of_units_and_can_be_used(editor, path):
    asked_for = {"text": GRAPH, "name": "twice", "kind": "normal"}
    status, found = asked(editor, "unit", asked_for)
    assert (status, found["text"]) == (200, GRAPH)
    assert sorted(found["files"]) == [
        "units/twice/test_twice.py", "units/twice/twice.py", "units/twice/twice.toml",
    ]  # fmt: skip
    units = [unit["name"] for unit in asked(editor, "units", {"text": GRAPH})[1]["units"]]
    assert "twice" in units
    assert asked(editor, "unit", asked_for) == (200, {"text": GRAPH, "files": []})  # a retry
    (path.parent / "units" / "twice" / "twice.py").write_text("# of the user")
    status, found = asked(editor, "unit", asked_for)
    assert (status, "is there already" in found["error"]) == (422, True)
    for name in ("../out", "Twice", ""):
        assert asked(editor, "unit", {**asked_for, "name": name})[0] == 422


def test_a_graph_without_a_folder_of_units_gets_one(tmp_path):
    path = tmp_path / "new.toml"
    with Editor(path) as editor:
        _, opened = asked(editor, "open")
        body = {"text": opened["text"], "name": "twice", "kind": "normal"}
        status, found = asked(editor, "unit", body)
        assert status == 200
        assert found["text"].endswith('\n[driver]\ndir = ["units"]\n')
        assert (tmp_path / "units" / "twice" / "twice.py").exists()
        assert asked(editor, "look", {"text": found["text"]})[1]["findings"] == []


def test_a_section_without_folders_of_units_gets_one(tmp_path):
    text = GRAPH.replace('dir = ["units"]', "skip-default = false  # all units")
    with Editor(tmp_path / "graph.toml") as editor:
        body = {"text": text, "name": "twice", "kind": "normal"}
        status, found = asked(editor, "unit", body)
    assert status == 200
    section = "skip-default = false  # all units\n"
    assert found["text"] == text.replace(section, section + 'dir = ["units"]\n')


@pytest.mark.parametrize(
    ("form", "graph", "message"),
    [
        ("dot", "digraph { a[type=input] b[type=output] a -> b }", "a DOT file names no folders"),
        ("toml", GRAPH.replace('["units"]', '["../elsewhere"]'), "is not below"),
    ],
)
def test_a_new_unit_is_written_nowhere_else(tmp_path, form, graph, message):
    with Editor(tmp_path / f"graph.{form}") as editor:
        status, found = asked(editor, "unit", {"text": graph, "name": "twice", "kind": "normal"})
    assert status == 422
    assert message in found["error"]
    assert list(Path(tmp_path).iterdir()) == []


def test_a_new_file_may_begin_with_any_of_the_graphs(tmp_path):
    with Editor(tmp_path / "faces.toml") as editor:
        _, opened = asked(editor, "open")
        assert [one["name"] for one in opened["starters"]][:2] == ["empty", "classify"]
        for one in opened["starters"]:
            status, view = asked(editor, "begin", {"starter": one["name"]})
            assert (status, view["findings"]) == (200, [])
            assert view["picture"]["name"] == "faces"
        assert asked(editor, "begin", {"starter": "imags"})[0] == 422


class Unshowable:
    def __repr__(self):
        raise RuntimeError("not for you")


def test_values_of_all_kinds_are_shown():
    from modelflow.studio.edit.trial.passed import KEPT, EdgeSamples

    kept = EdgeSamples()
    values = [
        {"a": [1, float("nan")], "b": "x" * 30_000},
        list(range(1000)),
        object(),
        np.array([1.0, np.inf, -2.0], np.float32),
        np.array([], np.float32),
        np.array(["a", None], object),
        True,
        np.array([1 + 2j]),
        np.array(["2026-01-02"], "datetime64[D]"),
        np.array([b"a\xff"]),
        np.array([1], np.longdouble),
        {"a": np.longdouble(1)},
        [10**5000],
        Unshowable(),
        np.zeros((3000, 2000, 3), np.uint8),
    ]
    shown = []
    for value in values:
        kept.add("a", "out", [modelflow.Buffer(value, {"key": "k"})])
        shown.append(kept.document("a", "out")["values"][0])
    json.dumps(shown, allow_nan=False)
    assert shown[0]["value"]["a"] == [1, "nan"]
    assert len(shown[0]["value"]["b"]) == 20_001
    assert shown[1]["value"][-2:] == [63, "… 936 more"]
    assert (shown[2]["kind"], shown[2]["type"]) == ("object", "object")
    assert (shown[3]["odd"], shown[3]["min"], shown[3]["mean"]) == (1, -2.0, -0.5)
    assert (shown[4]["shape"], "min" in shown[4]) == ([0], False)
    assert shown[5]["first"] == ["a", "None"]
    assert shown[6]["value"] is True
    assert shown[6]["meta"] == {"key": "k"}
    assert (shown[7]["first"], shown[8]["first"]) == (["(1+2j)"], ["2026-01-02"])
    assert "cannot be shown" in shown[12]["text"]
    assert (shown[13]["type"], "cannot be shown" in shown[13]["text"]) == ("Unshowable", True)
    assert (shown[14]["shape"], shown[14]["step"]) == ([3000, 2000, 3], 18)
    found = kept.document("a", "out")
    assert (found["count"], len(found["values"])) == (len(values), KEPT)
