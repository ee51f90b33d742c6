"""Folders for what was sent to a machine: they go when their process does."""

import os
import signal
import subprocess
import sys
import tempfile

from modelflow.ray.sent_folder import SentFolder
from tests import programs

PROGRAM = """
import sys
from modelflow.ray.sent_folder import SentFolder
mine = SentFolder()
print(mine.path, flush=True)
sys.stdin.read()
"""


def test_the_folder_of_one_that_was_killed_goes_with_the_next_and_others_stay(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    mine = SentFolder()
    (mine.path / "app.mfz").write_bytes(b"x")
    with programs.started(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        left = process.stdout.readline().strip()
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert os.path.isdir(left)
    other = SentFolder()
    assert sorted(tmp_path.iterdir()) == sorted([mine.path, other.path])
    for folder in (mine, other, other):
        folder.remove()
    assert list(tmp_path.iterdir()) == []
