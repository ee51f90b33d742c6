import logging
import os
import pty
import subprocess
import sys

import pytest

from modelflow.cli.terminal.messages import LevelFormatter, tell, tell_error

RED, CYAN, BOLD, END = "\x1b[31m", "\x1b[36m\x1b[1m", "\x1b[1m", "\x1b[0m"


@pytest.fixture
def coloured(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)


@pytest.mark.usefixtures("coloured")
def test_what_is_said_has_the_colour_of_its_kind(capsys):
    tell("note", "as it is")
    assert capsys.readouterr().err == f"{CYAN}note:{END} as it is\n"


@pytest.mark.usefixtures("coloured")
def test_of_an_error_the_places_stand_out(capsys):
    tell_error("a.toml:3: no\nb.toml:4: neither")
    assert capsys.readouterr().err == (
        f"{BOLD}a.toml:3: {END}{RED}no\n{END}{BOLD}b.toml:4: {END}{RED}neither{END}\n"
    )


@pytest.mark.parametrize("no", ["", "1"])
def test_in_a_pipe_or_against_the_users_wish_there_are_none(capsys, monkeypatch, no):
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("NO_COLOR", no)
    tell("error", "no")
    tell_error("a.toml:3: no")
    assert capsys.readouterr().err == "error: no\na.toml:3: no\n"


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        (logging.DEBUG, "DEBUG: text"),
        (logging.WARNING, f"\x1b[33m{BOLD}WARNING{END}: text"),
        (logging.CRITICAL, f"{RED}{BOLD}CRITICAL{END}: text"),
    ],
)
def test_a_log_message_has_the_colour_of_its_level(level, expected):
    record = logging.LogRecord("modelflow", level, "", 1, "text", (), None)
    assert LevelFormatter(is_coloured=True).format(record) == expected
    assert "\x1b" not in LevelFormatter(is_coloured=False).format(record)


@pytest.mark.parametrize(("wish", "is_coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_a_terminal_is_told_in_colours_unless_they_are_unwanted(tmp_path, wish, is_coloured):
    (tmp_path / "wrong.toml").write_text("[grpah]\n")
    ours, theirs = pty.openpty()
    kept = {key: value for key, value in os.environ.items() if not key.endswith("_COLOR")}
    command = [sys.executable, "-m", "modelflow", "check", "wrong.toml"]
    done = subprocess.run(
        command, cwd=tmp_path, stderr=theirs, stdout=theirs, env=kept | wish, check=False
    )
    os.close(theirs)
    told = os.read(ours, 4096).decode()
    os.close(ours)
    assert done.returncode == 1
    assert "unknown section 'grpah'" in told
    assert ("\x1b[" in told) is is_coloured
