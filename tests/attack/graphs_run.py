"""Programs that run a graph, ended by signals at random moments."""

import contextlib
import os
import random
import signal
import socket
import subprocess
import time
from collections import Counter
from pathlib import Path

from modelflow.starters.ready import ready_graphs
from tests import programs
from tests.attack.outputs import FILES, check_outputs, write_pictures
from tests.attack.traces import LONG, of_session, soon

# The files that ONNX Runtime leaves in the temporary folder when it is imported.
_OTHERS = ".ses"

# The messages of Python itself after a Ctrl-C, with exit code 1, before the program begins.
_IN_PYTHONS_START = ("Could not import runpy module", "Fatal Python error: init_")


class Target:
    """A graph for ``modelflow run``, and the outputs of a complete run."""

    def __init__(self, name, arguments, pattern, code=0):
        self.name = name
        self.arguments = arguments
        self.pattern = pattern
        self.code = code  # of a whole run
        self.seconds = 0.0  # of a whole run

    def start(self, folder):
        for place in (folder / "tmp", folder / "written"):
            place.mkdir(exist_ok=True)
            for old in place.iterdir():
                old.unlink()
        return programs.started(
            ["python", "-m", "modelflow", "run", *self.arguments],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(folder / "tmp")},
        )

    def measure(self, folder):
        start = time.monotonic()
        with self.start(folder) as process:
            _, errors = process.communicate(timeout=LONG * 5)
            assert process.returncode == self.code, errors
        self.seconds = time.monotonic() - start
        assert not self.pattern or any((folder / "written").glob(self.pattern))


class Server(Target):
    """A graph that runs until the attack ends the process."""

    def __init__(self, name, arguments, port):
        super().__init__(name, arguments, "")
        self.port = port

    def measure(self, folder):
        start = time.monotonic()
        with self.start(folder) as process:
            assert soon(self._is_listening)
            self.seconds = time.monotonic() - start
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=LONG)
            assert process.returncode == 128 + signal.SIGTERM, errors

    def _is_listening(self):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
            return True
        return False


def targets(folder):
    """Makes the graphs and their inputs, for the installed packages."""
    write_pictures(folder / "pictures", 300)
    write_pictures(folder / "broken", 300, broken=(0, 150, 299))
    found = []
    for workers in ("thread", "process"):
        path = folder / f"files_{workers}.toml"
        path.write_text(FILES.replace("WORKERS", workers))
        found.append(Target(f"files, {workers}", [str(path)], "*.png"))
    broken = [str(folder / "files_thread.toml"), "--set", "read.path=broken"]
    found.append(Target("files, broken", broken, "*.png", code=1))
    graphs = ready_graphs()
    boxes = ["--arg", "boxes=written/boxes.mp4", "--set", "video.repeat=1"]
    found.append(Target("video_boxes", [str(graphs / "video_boxes.toml"), *boxes], "*.mp4"))
    found.append(Target("digits", [str(graphs / "digits.toml")], ""))
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    endpoint = ["--arg", f"endpoint=http://127.0.0.1:{port}/v1/digit"]
    found.append(Server("mnist_http", [str(graphs / "mnist_http.toml"), *endpoint], port))
    return found


def attack_programs(moments, number, folder, names=None):
    """Ends ``moments`` programs by signals; returns the exit codes, and the longest end."""
    chance = random.Random(number)
    aims = [t for t in targets(Path(folder)) if names is None or t.name in names]
    for aim in aims:
        aim.measure(Path(folder))
    counts, longest = Counter(), 0.0
    for _ in range(moments):
        aim = chance.choice(aims)
        number = chance.choice([signal.SIGINT, signal.SIGTERM])
        moment = chance.uniform(0, 1.1 * aim.seconds)
        code, seconds = end_after(aim, Path(folder), number, moment)
        counts[aim.name, number.name, code] += 1
        longest = max(longest, seconds)
    return counts, longest


def end_after(aim, folder, number, moment):
    """Sends a signal to one program ``moment`` seconds after its start."""
    with aim.start(folder) as process:
        allowed = [aim.code]
        try:
            process.wait(moment)
        except subprocess.TimeoutExpired:
            process.send_signal(number)
            allowed.append(128 + number)
        start = time.monotonic()
        _, errors = process.communicate(timeout=LONG)
        seconds = time.monotonic() - start
        where = f"{aim.name}, {number.name} after {moment:.3f} s"
        # Before the program has set its own handlers, the system ends the process. Shells report
        # the same code for both.
        code = process.returncode if process.returncode >= 0 else 128 - process.returncode
        if number is signal.SIGINT and errors.startswith(_IN_PYTHONS_START):
            allowed.append(1)
        assert code in allowed, f"{where}: exit code {process.returncode}\n{errors}"
        assert soon(lambda: not of_session(process.pid)), f"{where}: processes are left"
    try:
        check_outputs(folder / "written")
        left = [file.name for file in (folder / "tmp").iterdir() if file.name != _OTHERS]
        # Python itself writes a file when it looks for the folder. A program that the system ends
        # before the program's own handlers exist may leave that file.
        assert not left or process.returncode < 0, f"temporary files are left: {left}"
    except AssertionError as error:
        error.add_note(where + "\n" + errors)
        raise
    return code, seconds
