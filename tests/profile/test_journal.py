"""The files that ``[profile]`` in a graph file asks for."""

import gzip
import json
import subprocess
import sys

import pytest

import modelflow
from modelflow.errors import RecordingError
from modelflow.profile.snapshot import Snapshot
from tests import programs
from tests.profile.flows import GRAPH, odd

TEXT = """
[profile]
{keys}
[graph]
format = "graphviz"
graphconf = '''{graph}'''
"""


def written(folder, keys):
    path = folder / "graph.toml"
    path.write_text(TEXT.format(keys=keys, graph=GRAPH))
    return path


@pytest.mark.parametrize(("session", "followed"), [("false", 1), ("true", 3)])
def test_figures_and_trace_are_written_beside_the_graph_file(tmp_path, session, followed):
    keys = f'profile = true\ntrace = true\nsession = {session}\ndir = "seen"'
    with modelflow.Flow(written(tmp_path, keys), units=[odd]) as flow:
        for _ in range(3):
            flow.infer(2)
    found = Snapshot.read(json.loads((tmp_path / "seen" / "known.stats.json").read_text()))
    assert found.stats.requests == {"ok": 3}
    events = json.loads(gzip.decompress((tmp_path / "seen" / "known.trace.json.gz").read_bytes()))
    heads = [e for e in events if e["ph"] == "b" and e["name"].startswith("request ")]
    assert len(heads) == followed


@pytest.mark.parametrize(
    ("key", "file"), [("performance", "known.stats.json"), ("trace", "known.trace.json.gz")]
)
def test_each_by_itself(tmp_path, key, file):
    with modelflow.Flow(written(tmp_path, f"{key} = true"), units=[odd]) as flow:
        flow.infer(2)
    assert [path.name for path in (tmp_path / "profile").iterdir()] == [file]


def test_nothing_is_written_unasked(tmp_path):
    with modelflow.Flow(written(tmp_path, 'dir = "seen"'), units=[odd]) as flow:
        flow.infer(2)
    assert [path.name for path in tmp_path.iterdir()] == ["graph.toml"]


def test_a_folder_that_cannot_be_made_is_an_error_and_nothing_runs(tmp_path):
    (tmp_path / "seen").write_text("a file")
    flow = modelflow.Flow(written(tmp_path, 'trace = true\ndir = "seen"'), units=[odd])
    with pytest.raises(RecordingError, match=r"\[profile\] dir: .*seen cannot be written: File ex"):
        flow.start()
    flow.stop()


@pytest.mark.parametrize("use", ["flow.start()", "flow.record('/dev/null').start()"])
def test_a_program_that_stops_nothing_ends_and_leaves_whole_files(tmp_path, use):
    written(tmp_path, "profile = true\ntrace = true")
    program = (
        "import modelflow\nfrom tests.profile.flows import odd\n"
        f"flow = modelflow.Flow({str(tmp_path / 'graph.toml')!r}, units=[odd])\n{use}\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        timeout=programs.LIMIT,
        check=False,
        capture_output=True,
    )
    assert (ended.returncode, ended.stderr) == (0, b"")
    if "record" not in use:
        text = gzip.decompress((tmp_path / "profile" / "known.trace.json.gz").read_bytes())
        assert json.loads(text)
        assert (tmp_path / "profile" / "known.stats.json").exists()
