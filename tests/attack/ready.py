"""The ready graphs as flows, ended at random moments, in a program for each graph.

The models of a program load once. ``python -m tests.attack.ready NAME MOMENTS SEED`` runs one graph
in the working folder, which belongs to the program, and writes ``result.json`` there.
"""

import contextlib
import http.client
import json
import logging
import os
import random
import signal
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cv2
import numpy as np

from modelflow import Flow
from modelflow.engine import LoadedModel
from modelflow.engine.onnx.engine import OnnxEngine
from modelflow.engine.tensorflow.engine import TensorFlowEngine
from modelflow.errors import Cancelled, StreamClosed
from modelflow.graph.read import read_graph
from modelflow.starters.ready import ready_graphs
from tests import programs
from tests.attack.outputs import FILES, check_outputs, write_pictures
from tests.attack.traces import LONG, soon, traces

WAYS = ("stop", "drain", "cancel", "request_stop", "SIGINT", "SIGTERM")
_PICTURES = 40


class Files:
    """Pictures that are read, made smaller and written by threads or worker processes."""

    pattern = "*.png"

    def __init__(self, folder, workers="thread", broken=()):
        write_pictures(folder / "pictures", _PICTURES, broken)
        self.path = folder / "files.toml"
        self.path.write_text(FILES.replace("WORKERS", workers))
        self.count = _PICTURES - len(broken)
        self.errors = len(broken)

    def graph(self):
        return read_graph(self.path)

    def use(self, _over):
        """Returns the threads of the users during the run."""
        return []

    def check_users(self, was_dropped):
        """Checks the users' results; ``was_dropped`` if rows in progress may be lost."""


class VideoBoxes(Files):
    """A video in which a graph finds, names and draws shapes."""

    pattern = "*.mp4"

    def __init__(self, folder):
        self.boxes = str(folder / "written" / "boxes.mp4")
        self.count, self.errors = 1, 0

    def graph(self):
        return read_graph(
            ready_graphs() / "video_boxes.toml",
            args={"boxes": self.boxes},
            overrides={"demux.max_frames": 20},
        )


class Digits(Files):
    """Pictures of digits that a model classifies."""

    pattern = "*.none"

    def __init__(self, folder):
        self.count, self.errors = 0, 0

    def graph(self):
        samples = ready_graphs() / "models" / "digits" / "samples" / "0*.png"
        return read_graph(ready_graphs() / "digits.toml", args={"samples": str(samples)})


class MnistHttp(Digits):
    """The same model behind HTTP, with users that send requests all the time."""

    def __init__(self, folder):
        super().__init__(folder)
        with socket.create_server(("127.0.0.1", 0)) as server:
            self.port = server.getsockname()[1]
        self.digit = (ready_graphs() / "models/digits/samples/0004_4.png").read_bytes()
        self.answers = 0
        self.dropped = []

    def graph(self):
        endpoint = f"http://127.0.0.1:{self.port}/v1/digit"
        return read_graph(ready_graphs() / "mnist_http.toml", args={"endpoint": endpoint})

    def use(self, over):
        users = [threading.Thread(target=self._ask, args=(over,)) for _ in range(3)]
        for user in users:
            user.start()
        return users

    def check_users(self, was_dropped):
        dropped, self.dropped = self.dropped, []
        for status, body in dropped:
            assert was_dropped, (status, body)
            assert (status, b"without an answer" in body) == (500, True), (status, body)

    def _ask(self, over):
        while not over.wait(0.001):
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LONG)
            try:
                connection.request("POST", "/v1/digit", self.digit)
                answer = connection.getresponse()
                body = answer.read()
            # the server does not listen yet, or no longer
            except (OSError, http.client.HTTPException):
                continue
            finally:
                connection.close()
            if answer.status == 200:
                self.answers += json.loads(body)[0]["class"] == 4
            elif answer.status != 503:
                self.dropped.append((answer.status, body))


TARGETS = {  # the targets that take longest come first
    "files, processes": lambda folder: Files(folder, workers="process"),
    "mnist_http": MnistHttp,
    "digits": Digits,
    "video_boxes": VideoBoxes,
    "files, threads": Files,
    "files, two broken": lambda folder: Files(folder, broken=(3, 30)),
}


class KeptModel(LoadedModel):
    """A model that stays loaded when the unit closes the model, because most flows share models."""

    def __init__(self, model):
        self.inputs, self.outputs, self.memory = model.inputs, model.outputs, model.memory
        self._model = model
        self._is_closed = False

    def run(self, inputs):
        assert not self._is_closed, "a model runs behind its end"
        return self._model.run(inputs)

    def close(self):
        assert not self._is_closed, "a model is closed twice"
        self._is_closed = True


def keep_models(chance):
    """Keeps models loaded for later flows, but lets a tenth of the flows load models again."""
    for engine in (TensorFlowEngine, OnnxEngine):
        engine.load = _keeping(engine.load, {}, chance)  # type: ignore[method-assign]


def _keeping(load, kept, chance):
    def keeping(self, request):
        key = repr(request)
        if key in kept and chance.random() < 0.9:
            return KeptModel(kept[key])
        model = load(self, request)
        if key not in kept:
            kept[key] = model
            return KeptModel(model)
        return model

    return keeping


class Signal(BaseException):
    """The exception for Ctrl-C at a moment when this program expects the signal."""


class Ending:
    """Ends a flow in one way at one moment, from another thread."""

    def __init__(self, flow, way, moment, chance):
        self.flow, self.way, self.moment = flow, way, moment
        self.drain = chance.random() < 0.5
        self.start = None
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._end, name="attack-ending")

    def _end(self):
        if self.over.wait(self.moment):
            return
        self.start = time.monotonic()
        if self.way in ("stop", "drain"):
            self.flow.stop(drain=self.way == "drain")
        elif self.way == "cancel":
            for source in self.flow.scheduler.sources:
                self.flow.create_stream_io(source=source).cancel()
            self.flow.stop(wait=False)
        elif self.way == "request_stop":
            self.flow.stop(self.drain, wait=False)
        else:
            os.kill(os.getpid(), getattr(signal, self.way))


def end_after(target, graph, way, moment, chance):
    """Runs a flow; returns whether the flow was ended, and the seconds of the end."""
    flow = Flow(graph, stop_timeout=LONG)
    assert not flow.scheduler.is_running
    ending = Ending(flow, way, moment, chance)
    users = []
    signal.signal(signal.SIGTERM, lambda *_: flow.stop(wait=False))
    try:
        signal.signal(signal.SIGINT, _interrupted)
        ending.thread.start()
        with contextlib.suppress(StreamClosed, Cancelled):  # the flow was ended before it began
            flow.start()
            users = target.use(ending.over)
            flow.wait()
    except Signal:
        flow.stop(drain=False)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        ending.over.set()
        flow.stop()
        ending.thread.join(LONG)
        for user in users:
            user.join(LONG)
            assert not user.is_alive(), "a user of the flow hangs"
    assert not ending.thread.is_alive(), "whoever ends the flow hangs"
    held = flow.scheduler.count_held()
    assert held == {}, held
    is_drained = way in ("drain", "SIGTERM") or (way == "request_stop" and ending.drain)
    target.check_users(was_dropped=not is_drained)
    return ending.start is not None, time.monotonic() - (ending.start or time.monotonic())


def _interrupted(_number, _frame):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise Signal


def attack(name, moments, number):
    """Attacks one graph in this process.

    Writes ``result.json`` with the counts of each way, the longest end, and the time of a whole run
    (in seconds).
    """
    folder, chance = Path.cwd(), random.Random(f"{name}{number}")
    keep_models(chance)
    (folder / "written").mkdir()
    target = TARGETS[name](folder)
    graph = target.graph()
    seconds = min(_whole_run(target, graph, folder) for _ in range(3))  # the first loads libraries
    # files that a library leaves when it is imported
    for file in Path(tempfile.gettempdir()).iterdir():
        file.unlink()
    before, counts, longest = traces(), Counter(), 0.0
    for place in range(moments):
        way, moment = chance.choice(WAYS), chance.uniform(0, 0.9 * seconds)
        try:
            was_ended, took = end_after(target, graph, way, moment, chance)
            assert took < LONG / 2, f"it took {took:.1f} s"
            assert soon(lambda: traces() == before), f"left: {traces()}, before: {before}"
            assert not os.listdir(tempfile.gettempdir()), os.listdir(tempfile.gettempdir())
            found = check_outputs(folder / "written")
            assert was_ended or found == target.count, f"{found} outputs of {target.count}"
        except BaseException as error:
            error.add_note(f"{name}: {way} after {moment:.4f} s")
            raise
        counts[way if was_ended else "(was over)"] += 1
        longest = max(longest, took)
        if place % 50 == 49 or place == moments - 1:  # results may be read while the attack runs
            found = {"counts": counts, "longest": longest, "whole": seconds}
            (folder / "result.json").write_text(json.dumps(found))


def _whole_run(target, graph, folder):
    """Returns the seconds of a run to the end (HTTP: until some requests are answered)."""
    start = time.monotonic()
    if isinstance(target, MnistHttp):
        over = threading.Event()
        with Flow(graph):
            users = target.use(over)
            assert soon(lambda: target.answers >= 20)
            over.set()
            for user in users:
                user.join()
        target.answers = 0
    else:
        with Flow(graph) as flow:
            flow.wait()
        assert check_outputs(folder / "written") == target.count
    return time.monotonic() - start


def attack_ready(moments, number, folder, names=None):
    """Attacks the ready graphs, as many at once as the machine has processors.

    Returns the results of each. Raises AssertionError with the output of a failed program.
    """
    chosen = [name for name in TARGETS if names is None or name in names]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = pool.map(lambda name: _attacked(name, moments, number, Path(folder)), chosen)
        return dict(zip(chosen, found, strict=True))


def _attacked(name, moments, number, folder):
    place = folder / name.replace(", ", "_").replace(" ", "_")
    place.mkdir()
    command = ["python", "-m", "tests.attack.ready", name, str(moments), str(number)]
    root = str(Path(__file__).parents[2])
    done = programs.run(
        command, cwd=place, env={**os.environ, "PYTHONPATH": root}, limit=LONG * (10 + moments)
    )
    assert done.returncode == 0, f"{name}:\n{done.stderr}"
    return json.loads((place / "result.json").read_text())


if __name__ == "__main__":
    logging.getLogger("modelflow").setLevel(logging.CRITICAL)
    cv2.setNumThreads(1)
    np.seterr(all="ignore")
    tempfile.tempdir = str(Path.cwd() / "tmp")
    Path(tempfile.tempdir).mkdir()
    attack(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
