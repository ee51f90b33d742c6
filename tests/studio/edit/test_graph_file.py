"""Tests that a file is written whole, and never over another program's changes."""

import fcntl
import os
import subprocess
import sys
import threading

import pytest

from modelflow.errors import ModelflowError
from modelflow.files.whole_file import write_whole
from modelflow.studio.edit import graph_file
from modelflow.studio.edit.graph_file import ChangedError, GraphFile
from tests import programs


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "graph.dot"
    path.write_bytes(b"digraph {\r\n}\n")
    return path


def test_line_ends_stay_as_they_are(path):
    file = GraphFile(path)
    stand = file.read()
    assert stand.text == "digraph {\r\n}\n"
    file.write(stand.text + "# ü\r\n", stand.mark)
    assert path.read_bytes() == "digraph {\r\n}\n# ü\r\n".encode()


def test_what_was_written_can_be_written_again(path):
    file = GraphFile(path)
    mark = file.write("a", file.read().mark)
    assert mark == file.read().mark
    file.write("b", mark)
    assert path.read_text() == "b"


def test_what_somebody_else_wrote_is_not_overwritten(path):
    file = GraphFile(path)
    mark = file.read().mark
    path.write_text("theirs")
    with pytest.raises(ChangedError, match="has changed since it was opened") as caught:
        file.write("mine", mark)
    assert path.read_text() == "theirs"
    assert caught.value.stand == file.read()
    file.write("mine", caught.value.stand.mark)
    assert path.read_text() == "mine"


def test_a_file_that_was_removed_is_not_made_again_unasked(path):
    file = GraphFile(path)
    mark = file.read().mark
    path.unlink()
    with pytest.raises(ChangedError, match="is no longer there") as caught:
        file.write("mine", mark)
    assert caught.value.stand.mark == ""


def test_a_new_file_is_made_unless_somebody_else_has_made_it(tmp_path):
    path = tmp_path / "new.dot"
    file = GraphFile(path)
    assert file.read() == ("", "")
    path.write_text("")
    with pytest.raises(ChangedError):
        file.write("mine", "")
    path.unlink()
    file.write("mine", "")
    assert path.read_text() == "mine"


def test_a_link_stays_a_link_and_who_may_read_stays(path):
    path.chmod(0o600)
    link = path.with_name("link.dot")
    link.symlink_to(path)
    file = GraphFile(link)
    file.write("a", file.read().mark)
    assert link.is_symlink()
    assert path.read_text() == "a"
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("contents", "said"),
    [(b"\xff", "is no text in UTF-8"), (b" " * (2 << 20) + b" ", "has more than 2097152 bytes")],
)
def test_what_is_no_graph_file_is_refused(path, contents, said):
    path.write_bytes(contents)
    with pytest.raises(ModelflowError, match=said):
        GraphFile(path).read()


def test_a_text_that_is_too_long_is_not_written(path):
    file = GraphFile(path)
    with pytest.raises(ModelflowError, match="expected at most 2097152"):
        file.write("ü" * (2 << 20), file.read().mark)
    assert path.read_bytes() == b"digraph {\r\n}\n"


def test_where_nothing_can_be_written_it_is_said(tmp_path):
    file = GraphFile(tmp_path / "a-file" / "graph.dot")
    (tmp_path / "a-file").write_text("")
    with pytest.raises(ModelflowError, match=r"graph\.dot: cannot be"):
        file.write("a", "")


def test_a_file_that_is_read_only_is_left_alone(tmp_path, monkeypatch):
    path = tmp_path / "graph.dot"
    path.write_text("mine")
    file = GraphFile(path)
    mark = file.read().mark
    monkeypatch.setattr("os.access", lambda *_: False)  # root may write everywhere
    with pytest.raises(ModelflowError, match="cannot be written: it is read-only"):
        file.write("other", mark)
    assert path.read_text() == "mine"


def test_a_mark_of_the_byte_order_is_kept_and_not_shown(tmp_path):
    path = tmp_path / "graph.dot"
    path.write_bytes(b"\xef\xbb\xbfdigraph {}")
    file = GraphFile(path)
    stand = file.read()
    assert stand.text == "digraph {}"
    file.write("digraph { a }", stand.mark)
    assert path.read_bytes() == b"\xef\xbb\xbfdigraph { a }"


def test_what_is_no_file_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "fifo.dot")
    (tmp_path / "folder.dot").mkdir()
    (tmp_path / "round.dot").symlink_to(tmp_path / "round.dot")
    for name in ("fifo.dot", "folder.dot"):
        with pytest.raises(ModelflowError, match="is no file"):
            GraphFile(tmp_path / name).read()
    with pytest.raises(ModelflowError, match="cannot be read"):
        GraphFile(tmp_path / "round.dot").read()


class Saving:
    """A save on its own thread, and the result."""

    def __init__(self, file, text, mark, moved):
        """Returns when the save has ended (too early for the test), or asks for the lock."""
        self.raised = None
        moved.clear()
        self._thread = threading.Thread(target=self._save, args=(file, text, mark, moved))
        self._thread.start()
        assert moved.wait(60)

    def _save(self, file, text, mark, moved):
        try:
            file.write(text, mark)
        except ModelflowError as error:
            self.raised = error
        moved.set()

    def join(self):
        self._thread.join(60)
        assert not self._thread.is_alive()


@pytest.fixture
def asks(monkeypatch):
    """Returns an event that is set when this process asks for a lock."""
    asks, flock = threading.Event(), fcntl.flock

    def noting(held, how):
        asks.set()
        flock(held, how)

    monkeypatch.setattr(fcntl, "flock", noting)
    return asks


@pytest.mark.parametrize("is_new", [False, True])
def test_of_two_saves_at_once_one_is_refused_with_what_the_other_wrote(
    path, is_new, asks, monkeypatch
):
    if is_new:
        path = path.with_name("new") / "graph.dot"
    first, second = GraphFile(path), GraphFile(path)
    mark = first.read().mark
    others = []

    def write(where, contents):
        """Starts a second save after the first has compared and before the first has written."""
        if not others:
            others.append(Saving(second, "second", mark, asks))
        write_whole(where, contents)

    monkeypatch.setattr(graph_file, "write_whole", write)
    first.write("first", mark)
    (other,) = others
    other.join()
    assert path.read_text() == "first"
    assert isinstance(other.raised, ChangedError)
    assert other.raised.stand.text == "first"


OTHER = """
import sys
from pathlib import Path
from modelflow.files.whole_file import write_whole
from modelflow.studio.edit import graph_file

def write(path, contents):
    print("compared", flush=True)
    sys.stdin.readline()
    write_whole(path, contents)

graph_file.write_whole = write
file = graph_file.GraphFile(Path(sys.argv[1]))
file.write("theirs", file.read().mark)
print("saved", flush=True)
"""


def test_a_save_of_another_process_is_waited_for_and_then_not_overwritten(path, asks):
    file = GraphFile(path)
    mark = file.read().mark
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with programs.started([sys.executable, "-c", OTHER, str(path)], **pipes) as other:
        assert other.stdout.readline().strip() == "compared"
        saving = Saving(file, "mine", mark, asks)
        other.stdin.write("go on\n")
        other.stdin.flush()
        assert other.stdout.readline().strip() == "saved"
        saving.join()
    assert path.read_text() == "theirs"
    assert isinstance(saving.raised, ChangedError)
    assert saving.raised.stand.text == "theirs"


def test_where_a_folder_cannot_be_locked_it_is_said_and_the_file_is_written(
    path, monkeypatch, caplog
):
    def refuse(held, how):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", refuse)
    file = GraphFile(path)
    file.write("mine", file.read().mark)
    assert path.read_text() == "mine"
    assert f"{path.parent}: cannot be locked (Operation not supported)" in caplog.text


def test_a_folder_that_was_removed_is_not_made_again_unasked(tmp_path):
    path = tmp_path / "folder" / "graph.dot"
    path.parent.mkdir()
    path.write_text("digraph {}")
    file = GraphFile(path)
    mark = file.read().mark
    path.unlink()
    path.parent.rmdir()
    with pytest.raises(ChangedError, match="is no longer there"):
        file.write("mine", mark)
    assert not path.parent.exists()


def test_a_path_that_no_file_can_have_is_refused(tmp_path):
    with pytest.raises(ModelflowError, match="cannot be read: File name too long"):
        GraphFile(tmp_path / f"{'x' * 300}.toml").read()
