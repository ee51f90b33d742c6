"""``modelflow ray run`` of a graph that places nothing: as ``modelflow run``, wherever it runs."""

import json
import re
import sys

import pytest

from tests import programs

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


@modelflow.flowunit
def process(data):
    return os.getpid()
'''

GRAPHS = {
    "plain": "input -> text -> upper -> output",
    "expand_collapse": "input -> text -> letters -> upper -> joined -> output",
    "expand": "input -> text -> letters -> upper -> output",
    "condition": "input -> text -> size; size:short -> upper -> output; size:long -> other",
    "loop": "input -> text -> enough; enough:again -> twice -> enough; enough:done -> output",
    "expand_count_collapse": "input -> text -> letters -> count -> joined -> output",
    "stream": "input -> text -> count -> output",
    "sink": "input -> text -> upper -> keep",
    "sink_and_output": "input -> text -> upper -> output; text -> upper_2 -> keep",
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
    """A file with the graph of some edges."""
    units = ["text", "letters", "upper", "joined", "size", "enough", "twice", "process"]
    names = {
        name for name in edges.replace(":", " ").replace(";", " ").split() if name.isidentifier()
    }
    nodes = [
        f'{name} [flowunit="units:{name.partition("_")[0]}"]'
        if name.partition("_")[0] in units
        else f'{name} [flowunit="units:{name.title()}"]'
        for name in sorted(names - {"input", "output", "other", "short", "long", "again", "done"})
    ]
    ends = [
        f"{name} [type={'input' if name == 'input' else 'output'}]"
        for name in sorted(names & {"input", "output", "other"})
    ]
    path = folder / "graph.toml"
    path.write_text(
        f"[graph]\ngraphconf = '''digraph g {{ {'; '.join([*ends, *nodes, edges])} }}'''\n"
    )
    return path


def ran(folder, *words):
    """What a run gave: its code, by output, in its sink, and as errors; and what it said."""
    kept, errors = folder / "kept.txt", folder / "errors.jsonl"
    command = [
        sys.executable,
        "-m",
        "modelflow",
        *words,
        "--input",
        str(folder / "in"),
        "--errors",
        str(errors),
    ]
    done = programs.run(command, cwd=folder)
    by_output = {}
    for line in map(json.loads, done.stdout.splitlines()):
        by_output.setdefault(line["output"], []).append(plain(line))
    lines = kept.read_text().splitlines() if kept.exists() else []
    failed = sorted(str(plain(json.loads(line))) for line in errors.read_text().splitlines())
    kept.unlink(missing_ok=True)
    items = re.search(r"(\d+) items?, ", done.stderr)[1]
    return done.returncode, by_output, lines, failed, items


def plain(line):
    """A line without the place in the code, which is told from where the flow runs."""
    line.get("error", {}).pop("where", None)
    return line


@pytest.mark.parametrize("name", GRAPHS)
def test_any_graph_gives_what_it_gives_here(machines, folder, name):
    graph = str(written(folder, GRAPHS[name]))
    here = ran(folder, "run", graph)
    assert here[0] == 1, "nothing is in error"
    there = ran(folder, "ray", "run", graph, "--address", machines.address, "--replicas", "2")
    assert there == here
