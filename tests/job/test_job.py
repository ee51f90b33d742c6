"""Tests of `modelflow.Job`, the Python form of ``modelflow run``."""

import json

import pytest

import modelflow
from modelflow.errors import ArgumentError, ConfigError

GRAPH = "digraph l { input [type=input] length output [type=output] input -> length -> output }"


@modelflow.flowunit
def length(data):
    """Returns the length of a text; raises for a bad text."""
    if data == b"bad":
        message = "is bad"
        raise ValueError(message)
    return len(data)


@pytest.fixture
def graph():
    return modelflow.read_graph(GRAPH, units=[length])


@pytest.fixture
def texts(tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    for number, text in enumerate(("a", "bad", "ccc")):
        (folder / f"{number}.txt").write_text(text)
    return folder


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_job_writes_a_result_for_each_input_and_counts_them(graph, texts, tmp_path):
    told = []
    job = modelflow.Job(
        graph,
        texts,
        {"output": tmp_path / "o.jsonl"},
        errors=tmp_path / "bad.jsonl",
        on_error=lambda text, error: told.append((text, error)),
    )
    result = job.run()
    assert (result.items, result.total, result.errors, result.errors_before) == (3, 3, 1, 0)
    assert result.results == {"output": 3}
    assert [line.get("data") for line in lines(tmp_path / "o.jsonl")] == [1, None, 3]
    assert lines(tmp_path / "bad.jsonl")[0]["path"] == str(texts / "1.txt")
    ((text, error),) = told
    assert "ValueError: is bad" in text
    assert isinstance(error.__cause__, ValueError)


@pytest.mark.parametrize("threads", [None, 0])
def test_a_job_goes_on_where_the_one_before_has_ended(graph, texts, tmp_path, threads):
    notes = []

    def run():
        places = (texts, tmp_path / "o.jsonl")
        lists = {"resume": tmp_path / "o.done"}
        job = modelflow.Job(graph, *places, **lists, threads=threads, on_note=notes.append)
        return job.run()

    run()
    (texts / "3.txt").write_text("dddd")
    result = run()
    assert (result.items, result.total, result.errors, result.errors_before) == (1, 1, 0, 1)
    assert result.results == {"output": 4}
    assert [line.get("data") for line in lines(tmp_path / "o.jsonl")] == [1, None, 3, 4]
    assert notes == ["3 items done before, 1 item left"]


def test_a_job_that_is_entered_can_be_stopped_from_elsewhere(graph, texts, tmp_path):
    with modelflow.Job(graph, texts, tmp_path / "o.jsonl") as job:
        assert job.result.items == 0
        assert not job.has_begun
        job.stop()
        with pytest.raises(modelflow.StreamClosed):
            job.run()


@pytest.mark.parametrize(
    ("inputs", "outputs", "what"),
    [
        ({"inputs": "x"}, (), "the graph has no input 'inputs'; did you mean 'input'"),
        ((), (), "input 'input' gets nothing"),
        ("texts/*.txt", "texts/1.txt", "texts/1.txt is read by --input input"),
    ],
)
def test_places_that_do_not_fit_are_errors(graph, texts, monkeypatch, inputs, outputs, what):
    monkeypatch.chdir(texts.parent)
    with pytest.raises(ArgumentError, match=what):
        modelflow.Job(graph, inputs, outputs).run()


def test_a_file_that_is_not_there_is_an_error_before_anything_is_opened(graph, tmp_path):
    with pytest.raises(ConfigError, match="there is no such file"):
        modelflow.Job(graph, tmp_path / "none", tmp_path / "o.jsonl").run()
    assert not (tmp_path / "o.jsonl").exists()
