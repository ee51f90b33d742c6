"""Programs that run a graph, ended by signals at random moments."""

import os
import random
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import cv2
import numpy as np

from modelflow.config.find import ready_graphs
from tests import programs
from tests.attack.traces import LONG, of_session, soon

FILES = """[graph]
graphconf = '''digraph files {
    read[flowunit=file_source, path="pictures"]
    decode[flowunit=image_decoder]
    shrink[flowunit=resize, image_width=64, image_height=64, workers=WORKERS]
    encode[flowunit=image_encoder, format=png]
    write[flowunit=file_sink, path="written/{stem}.png"]
    read -> decode -> shrink -> encode -> write
}'''
"""


# What ONNX Runtime leaves in the temporary folder when it is imported.
_OTHERS = ".ses"


class Target:
    """A graph that ``modelflow run`` runs, and what its outputs are when they are whole."""

    def __init__(self, name, arguments, pattern):
        self.name = name
        self.arguments = arguments
        self.pattern = pattern
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
            assert process.returncode == 0, errors
        self.seconds = time.monotonic() - start
        assert not self.pattern or any((folder / "written").glob(self.pattern))

    def check_outputs(self, folder):
        """Nothing is half written, and no draft is left."""
        for file in (folder / "written").iterdir():
            assert not file.name.startswith("."), f"a draft is left: {file.name}"
            if file.suffix == ".png":
                assert cv2.imread(str(file)) is not None, f"{file.name} is cut off"
            else:
                video = cv2.VideoCapture(str(file))
                assert video.isOpened(), f"{file.name} is cut off"
                assert video.read()[0], f"{file.name} has no frame"
                video.release()


def targets(folder):
    """Makes the graphs and their inputs; those whose packages are there."""
    (folder / "pictures").mkdir()
    noise = np.random.default_rng(0).integers(0, 255, (200, 200, 3), np.uint8)
    for number in range(300):
        cv2.imwrite(str(folder / "pictures" / f"{number}.jpg"), noise)
    found = []
    for workers in ("thread", "process"):
        path = folder / f"files_{workers}.toml"
        path.write_text(FILES.replace("WORKERS", workers))
        found.append(Target(f"files, {workers}", [str(path)], "*.png"))
    graphs = ready_graphs()
    boxes = ["--arg", "boxes=written/boxes.mp4", "--set", "video.repeat=1"]
    found.append(Target("video_boxes", [str(graphs / "video_boxes.toml"), *boxes], "*.mp4"))
    found.append(Target("digits", [str(graphs / "digits.toml")], ""))
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
        try:
            process.wait(moment)
        except subprocess.TimeoutExpired:
            process.send_signal(number)
        start = time.monotonic()
        _, errors = process.communicate(timeout=LONG)
        seconds = time.monotonic() - start
        where = f"{aim.name}, {number.name} after {moment:.3f} s"
        # Before the program has set its own handlers, the system ends it: shells say the same code.
        code = process.returncode if process.returncode >= 0 else 128 - process.returncode
        assert code in (0, 128 + number), f"{where}: exit code {process.returncode}\n{errors}"
        assert soon(lambda: not of_session(process.pid)), f"{where}: processes are left"
    try:
        aim.check_outputs(folder)
        left = [file.name for file in (folder / "tmp").iterdir() if file.name != _OTHERS]
        # Python itself writes a file when it looks for the folder: a program that the system has
        # ended, before it had its own handlers, may leave that one.
        assert not left or process.returncode < 0, f"temporary files are left: {left}"
    except AssertionError as error:
        error.add_note(where + "\n" + errors)
        raise
    return code, seconds
