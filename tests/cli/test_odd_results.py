"""Tests of results that cannot be written: errors in their places, with all others written."""

import json

import numpy as np
import pytest

from modelflow.buffer import Buffer
from modelflow.errors import ConfigError
from modelflow.job import writer as writing
from modelflow.job.error_report import ErrorReport
from modelflow.job.writer import ResultWriter


def pass_over(_text, _error):
    """Ignores a message of a report, because the test reads the report's file."""


class Odd:
    """A value without a text."""

    def __repr__(self):
        message = "has no text"
        raise OSError(message)


class Leaving:
    """A value whose ``repr`` ends the process."""

    def __repr__(self):
        raise SystemExit(0)


ROUND = []
ROUND.append(ROUND)
HUGE = 10**5000
DATA = [
    Buffer(HUGE),
    Buffer(ROUND),
    Buffer({"a": Odd()}),
    Buffer(Leaving()),
    Buffer(np.array([Odd()], object)),
]
META = [Buffer(1, {"odd": HUGE}), Buffer(1, {"odd": ROUND}), Buffer(1, {"odd": Leaving()})]


@pytest.mark.parametrize("paths", [[], ["a.txt", "b.txt", "c.txt"]])
@pytest.mark.parametrize(
    ("output", "odd"),
    [
        *((output, odd) for output in ("o.jsonl", "-") for odd in (*DATA, *META)),
        *(("o.parquet", odd) for odd in (*DATA, *META)),
        *(("out/", odd) for odd in DATA),
    ],
)
def test_a_result_that_cannot_be_written_is_an_error_in_its_place(
    folder, capsys, output, odd, paths
):
    if output == "o.parquet":
        pytest.importorskip("pyarrow")
    with (
        ErrorReport(folder / "bad", pass_over, is_resumed=False) as errors,
        ResultWriter([output], ["output"], errors, lambda _: None) as writer,
    ):
        writer.open(True, paths=paths)
        for buffer in (Buffer(7, {"path": "a.txt"}), odd, Buffer(9, {"path": "c.txt"})):
            writer.write("output", buffer)
        assert errors.count == 1
    (bad,) = [json.loads(line) for line in (folder / "bad").read_text().splitlines()]
    assert (bad["index"], bad["error"]["node"], bad["error"]["phase"]) == (1, "output", "write")
    assert bad.get("path") == ("b.txt" if paths else None)
    said = capsys.readouterr().out
    if output == "out/":
        assert {path.read_text() for path in (folder / "out").iterdir()} == {"7\n", "9\n"}
        assert json.loads(said)["error"] == bad["error"]
    elif output == "o.parquet":
        import pyarrow.parquet as pq

        rows = pq.read_table(folder / output).to_pylist()
        assert [row["data"] for row in rows] == [7, None, 9]
        assert "failed in write" in rows[1]["error"]
    else:
        text = said if output == "-" else (folder / output).read_text()
        lines = [json.loads(line) for line in text.splitlines()]
        assert [line.get("data") for line in lines] == [7, None, 9]
        assert lines[1]["error"] == bad["error"]


@pytest.mark.parametrize("output", ["o.jsonl", "out/"])
def test_a_path_that_is_no_path_is_left_out(folder, output):
    with (
        ErrorReport(folder / "bad", pass_over, is_resumed=False) as errors,
        ResultWriter([output], ["output"], errors, lambda _: None) as writer,
    ):
        writer.open(True)
        writer.write("output", Buffer(7, {"path": Odd()}))
    assert errors.count == 0
    if output == "out/":
        assert (folder / "out" / "000000.json").read_text() == "7\n"
    else:
        expected = {"index": 0, "output": "output", "data": 7, "meta": {}}
        assert json.loads((folder / output).read_text()) == expected


@pytest.mark.parametrize("output", ["o.jsonl", "out/"])
def test_a_full_disk_is_no_items_error(folder, monkeypatch, output):
    def write_nothing(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writing, "write_whole", write_nothing)
    target = "/dev/full" if output == "o.jsonl" else output
    with (
        ErrorReport(None, pass_over, is_resumed=False) as errors,
        ResultWriter([target], ["output"], errors, lambda _: None) as writer,
    ):
        writer.open(True)
        with pytest.raises(ConfigError, match=r"cannot write .*No space left"):
            writer.write("output", Buffer(7))
        assert errors.count == 0
