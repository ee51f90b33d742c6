"""Tests of the lines of a log, and of their files."""

import io
import json
import os
import sys
import threading
from collections import Counter

import pytest

from modelflow.errors import ConfigError
from modelflow.serve.access.access_log import AccessLog
from tests import programs


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_everything_is_written_by_the_end_in_order(tmp_path):
    log = AccessLog(str(tmp_path / "log"))
    for number in range(5000):
        log.write({"n": number})
    log.close()
    log.close()
    assert [line["n"] for line in lines(tmp_path / "log")] == list(range(5000))


def test_lines_are_written_behind_those_of_another_run(tmp_path):
    for number in range(2):
        log = AccessLog(str(tmp_path / "log"))
        log.write({"n": number})
        log.close()
    assert lines(tmp_path / "log") == [{"n": 0}, {"n": 1}]


def test_a_file_that_was_moved_away_is_opened_anew(tmp_path):
    path, old = tmp_path / "log", tmp_path / "log.1"
    log = AccessLog(str(path))
    log.write({"n": 0})
    path.rename(old)
    log.write({"n": 1})
    log.reopen()
    log.write({"n": 2})
    log.close()
    assert sorted(line["n"] for line in lines(old) + lines(path)) == [0, 1, 2]
    assert lines(path) == [{"n": 2}]


def test_where_it_cannot_be_opened_anew_the_old_file_is_still_written(tmp_path, caplog):
    folder = tmp_path / "folder"
    folder.mkdir()
    log = AccessLog(str(folder / "log"))
    folder.rename(tmp_path / "moved")
    log.reopen()
    log.write({"n": 1})
    log.close()
    assert lines(tmp_path / "moved" / "log") == [{"n": 1}]
    assert "the log continues in the previous file" in caplog.text


def test_a_dash_is_the_standard_output(capsys):
    log = AccessLog("-")
    log.write({"n": 1})
    log.reopen()
    log.close()
    assert capsys.readouterr().out == '{"n":1}\n'


@pytest.mark.parametrize("output", [None, io.StringIO()])
def test_where_there_is_no_standard_output_a_dash_says_so(monkeypatch, output):
    monkeypatch.setattr(sys, "stdout", output)
    with pytest.raises(ConfigError, match="there is no standard output here; give a file"):
        AccessLog("-")


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"access log .*gone/log: cannot be written: No such"):
        AccessLog(str(tmp_path / "gone" / "log"))


def test_a_disk_that_takes_nothing_is_said_once_with_how_much_was_lost(caplog):
    log = AccessLog("/dev/full")
    for _ in range(2):
        written = threading.Event()
        log.write(_Noticed(written))
        assert written.wait(60)
    log.close()
    assert caplog.text.count("cannot be written") == 1
    assert "2 lines were lost" in caplog.text


class _Noticed(dict[str, int]):
    """A line that sets an event while the log writes the line."""

    def __init__(self, event):
        super().__init__(n=1)
        self._event = event

    def items(self):
        self._event.set()
        return super().items()


def test_lines_that_a_pipe_does_not_take_hold_nobody_up(tmp_path):
    """Starts the pipe's reader after all lines have been written."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    log = AccessLog(str(path))
    for number in range(2000):
        log.write({"n": number, "text": "x" * 100})
    os.set_blocking(reading, True)
    found = []
    with os.fdopen(reading) as pipe:
        reader = threading.Thread(target=lambda: found.extend(pipe))
        reader.start()
        log.close()
        reader.join()
    assert [json.loads(line)["n"] for line in found] == list(range(2000))


@pytest.mark.parametrize("is_file", [True, False], ids=["file", "pipe"])
def test_lines_of_several_processes_are_whole(tmp_path, is_file):
    """Tests processes that each write many lines at once, more than a pipe takes in one write."""
    program = """if True:
        import sys
        from modelflow.serve.access.access_log import AccessLog
        log = AccessLog(sys.argv[1])
        for number in range(50_000):
            log.write({"n": number, "text": sys.argv[2] * 100})
        log.close()
    """
    path = tmp_path / "log"
    target = str(path) if is_file else "-"
    both = f'"$0" -c "$1" {target} a & "$0" -c "$1" {target} b & wait'
    command = ["bash", "-c", both if is_file else f"({both}) | cat > {path}"]
    programs.run([*command, sys.executable, program], check=True)
    assert Counter(line["text"] for line in lines(path)) == {"a" * 100: 50_000, "b" * 100: 50_000}
