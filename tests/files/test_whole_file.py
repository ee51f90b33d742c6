"""Tests of files that are written whole, and of the leftovers of a killed process."""

import os
import signal
import sys

import pytest

from modelflow.files.whole_file import remove_drafts, write_whole
from tests import programs

KILLED = """
import os, signal, sys
from pathlib import Path
from modelflow.files.whole_file import write_whole
Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
write_whole(Path(sys.argv[1]), b"new")
"""


def test_a_file_is_written_whole_and_keeps_its_mode(tmp_path):
    path = tmp_path / "in" / "a.txt"
    write_whole(path, b"one")
    path.chmod(0o640)
    write_whole(path, b"two")
    assert path.read_bytes() == b"two"
    assert path.stat().st_mode & 0o777 == 0o640
    assert os.listdir(path.parent) == ["a.txt"]


def test_what_cannot_be_written_leaves_nothing(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").touch()
    with pytest.raises(OSError, match="a"):
        write_whole(tmp_path / "a", b"one")
    assert os.listdir(tmp_path) == ["a"]


def test_drafts_of_a_killed_process_are_removed_and_nothing_else(tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(b"old")
    (tmp_path / ".hidden.0123456789ab").touch()
    done = programs.run([sys.executable, "-c", KILLED, str(path)])
    assert done.returncode == -signal.SIGKILL
    assert len(os.listdir(tmp_path)) == 3
    remove_drafts(tmp_path)
    assert sorted(os.listdir(tmp_path)) == [".hidden.0123456789ab", "a.json"]
    assert path.read_bytes() == b"old"


def test_a_long_name_of_long_letters_can_be_written(tmp_path):
    path = tmp_path / ("\u4e2d" * 80)
    write_whole(path, b"one")
    assert path.read_bytes() == b"one"
