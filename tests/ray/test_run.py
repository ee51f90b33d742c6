"""Tests that ``modelflow ray run`` gives the results of ``modelflow run``, on any machine."""

import json
import re

import pytest

from tests.in_process import run_here

UNITS = '''
import os

import modelflow

KEPT = os.path.join(os.path.dirname(__file__), "kept.txt")
from modelflow import FlowUnit, FlowUnitSpec, Port, Stream


@modelflow.flowunit
def text(data):
    """The text of a file."""
    if bytes(data) == b"bad":
        raise ValueError("a bad file")
    return bytes(data).decode()


@modelflow.flowunit(kind="expand")
def letters(text: str):
    yield from text


@modelflow.flowunit
def upper(text: str):
    if text == "!":
        raise ValueError("no letter")
    return text.upper()


@modelflow.flowunit(kind="collapse")
def joined(letters: list):
    return "-".join(letters)


@modelflow.flowunit(kind="condition", outputs=("short", "long"))
def size(text: str):
    return "short" if len(text) < 3 else "long"


@modelflow.flowunit(kind="loop", outputs=("again", "done"))
def enough(text: str):
    return "done" if len(text) > 8 or not text else "again"


@modelflow.flowunit
def twice(text: str):
    return text + text


class Count(FlowUnit):
    SPEC = FlowUnitSpec(
        "count",
        {"cpu": lambda: Count()},
        inputs=(Port("in"),),
        outputs=(Port("out"),),
        kind=Stream(),
    )

    def process(self, ctx):
        for buffer in ctx.input():
            ctx.state["count"] = ctx.state.get("count", 0) + len(buffer.data)
            ctx.emit([ctx.state["count"]])

    def stream_end(self, ctx):
        ctx.emit(["end"])


class Keep(FlowUnit):
    SPEC = FlowUnitSpec("keep", {"cpu": lambda: Keep()}, inputs=(Port("in"),))

    def process(self, ctx):
        with open(KEPT, "a") as file:
            file.writelines(f"{buffer.data}\\n" for buffer in ctx.input())

'''

CLASSES = ("count", "keep")
GRAPHS = {
    "all of it": """
        input -> text -> upper -> output
        text -> letters -> upper_2 -> joined -> joined_out
        letters -> upper_3 -> letters_out
        letters -> count -> joined_2 -> counted_out
        text -> size; size:short -> upper_4 -> short_out; size:long -> long_out
        text -> enough; enough:again -> twice -> enough; enough:done -> long_enough_out
        text -> count_2 -> stream_out
        upper -> keep
    """,
    "a sink alone": "input -> text -> upper -> keep",
}
INPUTS = ["a", "bcd", "bad", "", "ef!g", "hij", "klmnopqrs"]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "units.py").write_text(UNITS)
    (tmp_path / "in").mkdir()
    for number, text in enumerate(INPUTS):
        (tmp_path / "in" / f"{number}.bin").write_text(text)
    return tmp_path


def written(folder, edges):
    """Writes a file with a graph of these edges."""
    names = set(re.findall(r"\w+", re.sub(r":\w+", "", edges)))
    nodes = {name: re.sub(r"_\d$", "", name) for name in sorted(names)}
    told = [
        f"{name} [type=input]"
        if name == "input"
        else f"{name} [type=output]"
        if name.endswith("out") or name == "output"
        else f'{name} [flowunit="units:{unit.title() if unit in CLASSES else unit}"]'
        for name, unit in nodes.items()
    ]
    path = folder / "graph.toml"
    path.write_text(f"[graph]\ngraphconf = '''digraph g {{ {'; '.join(told)}; {edges} }}'''\n")
    return path


def ran(folder, *words):
    """Returns a run's exit code, results by output, sink, errors, and messages."""
    kept, errors = folder / "kept.txt", folder / "errors.jsonl"
    done = run_here((*words, "--input", str(folder / "in"), "--errors", str(errors)), env={})
    by_output = {}
    for line in map(json.loads, done.stdout.splitlines()):
        by_output.setdefault(line["output"], []).append(plain(line))
    lines = kept.read_text().splitlines() if kept.exists() else []
    failed = sorted(str(plain(json.loads(line))) for line in errors.read_text().splitlines())
    kept.unlink(missing_ok=True)
    items = re.search(r"(\d+) items?, ", done.stderr)[1]
    return done.returncode, by_output, lines, failed, items


def plain(line):
    """Returns a line without the position in the code, which depends on the process."""
    line.get("error", {}).pop("where", None)
    return line


@pytest.mark.parametrize("name", GRAPHS)
def test_any_graph_gives_what_it_gives_here(machines, folder, name, monkeypatch):
    monkeypatch.chdir(folder)
    graph = str(written(folder, GRAPHS[name]))
    here = ran(folder, "run", graph)
    assert here[0] == 1, "nothing is in error"
    there = ran(folder, "ray", "run", graph, "--address", machines.address, "--replicas", "2")
    assert there == here
