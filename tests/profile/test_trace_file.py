"""Files of trace events, whole and cut off."""

import gzip
import json

import pytest

from modelflow.profile.trace_events import TraceFile


def read(path):
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode()


@pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_events_become_an_array(tmp_path, name, count):
    with TraceFile(tmp_path / name, is_packed=name.endswith(".gz")) as file:
        for number in range(count):
            file.write(json.dumps({"number": number}))
            if number == 1:
                file.flush()
                file.flush()  # of nothing
        file.close()
    assert json.loads(read(tmp_path / name)) == [{"number": number} for number in range(count)]


def test_what_was_flushed_can_be_read_though_the_file_never_ends(tmp_path):
    path = tmp_path / "t.json.gz"
    file = TraceFile(path, is_packed=path.suffix == ".gz")
    file.write('{"number":1}')
    file.flush()
    file.write('{"number":2}')
    text = read(path)
    assert text == '[\n{"number":1}'
    file.close()


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        TraceFile(tmp_path / "none" / "t.json", is_packed=False)
