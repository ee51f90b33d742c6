"""Shell sessions of pages: each command is typed, and its output compared with the page's.

A session is a block whose commands begin with ``$ ``. Rules of the comparison:

- ``...`` stands for anything, and a free port for the port that the page shows.
- Answers (``curl``, ``python client.py``) have the lines of the page and no others. Whole numbers
  are equal. Numbers with a point differ by 0.02 at most, as trained models do.
- Other commands print the lines of the page in their order, perhaps with other lines between. Their
  numbers and times are not compared, because they depend on the machine. A load lasts shorter,
  unless each second is shown.
- The findings of the commands in `JUDGES` depend on the machine's load; only the exit code is
  compared.
"""

import contextlib
import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests import programs
from tests.in_process import run_here

__all__ = ["run_session", "sessions"]

JUDGES = ("modelflow doctor", "modelflow tune")

_LIMIT = f"{programs.LIMIT / 4:.0f}"  # seconds until a server without the expected lines is ended
_SESSION = re.compile(r"^```console\n(\$ .*?)^```$", re.MULTILINE | re.DOTALL)
_SERVERS = re.compile(r"modelflow (serve|edit|dashboard)\b|python app\.py|--watch|--dashboard|&$")
_ANSWERS = ("curl", "python client.py")
_FAILING = {"modelflow check": (1,), "modelflow doctor": (0, 3), "modelflow tune": (0, 3)}
_PORT = re.compile(r"(?<=[ :])[89]\d{3}\b")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
# A table shows "-" where it has no number.
_ANY_NUMBER = r"(?:-|-?\d[\d.,]*(?: ?(?:us|ms|s)\b)?)"
_VARIES = re.compile(
    r"127\.0\.0\.1:(?P<port>\d+)|(?P<rest>\.\.\.)|token=(?P<token>\S+)"
    r"|(?P<number>(?<!\S)-(?!\S)|-?\d[\d.,]*(?: ?(?:us|ms|s)\b)?)|(?P<space>\s+)"
)
_PATTERNS = {"rest": ".*", "token": r"token=\S+", "number": _ANY_NUMBER, "space": r"\s+"}
_CHANGED = re.compile(r"note: (\S+) changed")
# A warning about the client, and the number of shed requests, depend on the machine.
_OF_THE_MACHINE = re.compile(r"warning: |.*: not answered well: ")


def sessions(page: str) -> list[str]:
    """Returns the sessions of a page."""
    return _SESSION.findall(page)


def run_session(session: str, folder: Path, env: Mapping[str, str] | None = None) -> None:
    """Types the commands of a session, and ends the servers that the session started.

    Args:
        session: The block's text.
        folder: The working folder.
        env: Variables that the commands get in addition to the test's.
    """
    ports: dict[str, str] = {}
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "PORT": "0", "BROWSER": "true"}
    environment |= {f"MODELFLOW_SERVE_{name}": "127.0.0.1:0" for name in ("HTTP", "GRPC")}
    environment |= {f"MODELFLOW_{name}_SECONDS": "0.3" for name in ("TUNE", "DOCTOR")}
    environment |= {"MODELFLOW_LOAD_WARM_UP": "0.1"}
    environment |= env or {}
    with contextlib.ExitStack() as servers:
        for command, shown in _commands(session):
            if _SERVERS.search(command):
                typed = _PORT.sub(lambda port: ports.get(port[0], "0"), command.rstrip(" &"))
                servers.enter_context(_serving(typed, shown, folder, environment, ports))
            else:
                typed = _PORT.sub(lambda port: ports.get(port[0], port[0]), command)
                environment["URL"] = f"http://127.0.0.1:{ports.get('8501', '')}"
                _ask(typed, shown, folder, environment)


def _commands(session: str) -> Iterator[tuple[str, list[str]]]:
    for part in re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]:
        command, *shown = part.splitlines()
        yield command, [line for line in shown if line.strip()]


def _ask(command: str, shown: list[str], folder: Path, env: Mapping[str, str]) -> None:
    is_answer = command.startswith(_ANSWERS)
    done = _typed(command, folder, env)
    said = f"$ {command}\n{done.stdout}\n{done.stderr}"
    name = " ".join(command.split()[:2])
    is_good = any(": ok: " in line for line in shown)
    codes = (0,) if is_good else _FAILING.get(name, (0,))
    assert done.returncode in codes, f"exit code {done.returncode}\n{said}"
    if is_answer:
        found = done.stdout.splitlines()
        assert len(found) == len(shown), said
        assert all(map(_is_answer, shown, found)), f"{said}\nexpected\n{shown}"
    elif name not in JUDGES:
        lines = iter((done.stdout + done.stderr).splitlines())
        for line in shown:
            if not _OF_THE_MACHINE.match(line):
                assert any(_pattern(line).fullmatch(one.rstrip()) for one in lines), (
                    f"{line}\n{said}"
                )


def _typed(
    command: str, folder: Path, env: Mapping[str, str]
) -> "subprocess.CompletedProcess[str]":
    """Runs a command; a modelflow command without need of a shell runs in this process."""
    if command.startswith("modelflow ") and not set(command) & set("<>|&;$"):
        if "--per-second" not in command:
            command = re.sub(r"--seconds \d+", "--seconds 0.3", command)
        with contextlib.chdir(folder):
            return run_here(tuple(shlex.split(command)[1:]), env=env)
    silent = command.replace("curl ", "curl --silent --show-error ", 1)
    return programs.run(["bash", "-c", silent], cwd=folder, env=env)


def _is_answer(shown: str, found: str) -> bool:
    if _NUMBER.sub("#", shown) != _NUMBER.sub("#", found):
        return False
    pairs = zip(_NUMBER.findall(shown), _NUMBER.findall(found), strict=True)
    return all(abs(float(a) - float(b)) <= (0.02 if "." in a else 0) for a, b in pairs)


def _pattern(shown: str) -> re.Pattern[str]:
    """Returns the pattern of a line of the page; each port is a group."""
    pattern, end = "", 0
    for found in _VARIES.finditer(shown):
        pattern += re.escape(shown[end : found.start()])
        pattern += r"127\.0\.0\.1:(\d+)" if found["port"] else _PATTERNS[str(found.lastgroup)]
        end = found.end()
    return re.compile(pattern + re.escape(shown[end:]))


@contextlib.contextmanager
def _serving(
    command: str, shown: list[str], folder: Path, env: Mapping[str, str], ports: dict[str, str]
) -> Iterator[None]:
    """Starts a server, waits for the lines that the page shows, and ends the server with SIGTERM.

    Args:
        command: The typed command, with port 0.
        shown: Its lines on the page. A line that reports a changed file makes this function write
            the file.
        folder: The working folder.
        env: All environment variables.
        ports: Receives the server's ports by those of the page.
    """
    assert shown, f"$ {command}: the page shows no line by which a reader knows that it serves"
    with programs.started(
        ["timeout", "--foreground", _LIMIT, "bash", "-c", f"exec {command}"],
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        said = [f"$ {command}"]
        for line in [line for line in shown if line != "..."]:
            if changed := _CHANGED.match(line):
                with (folder / changed[1]).open("a") as file:
                    file.write("\n")
            ports |= _await(line, process, said)
        yield
        process.terminate()  # Python may lose a Ctrl-C during an import
        process.communicate(timeout=programs.LIMIT)


def _await(shown: str, process: "subprocess.Popen[str]", said: list[str]) -> dict[str, str]:
    """Reads until a line of the page appears; returns the server's ports by the page's ports."""
    pattern = _pattern(shown)
    for line in process.stdout or ():
        said.append(line.rstrip())
        if found := pattern.fullmatch(said[-1]):
            return dict(zip(re.findall(r"127\.0\.0\.1:(\d+)", shown), found.groups(), strict=True))
        if said[-1].split(" ")[0] == shown.split(" ")[0] == "serves":
            break  # served under another name
    raise AssertionError("\n".join([f"{shown}: has not come", *said]))
