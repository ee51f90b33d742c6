"""Tests and benchmarks of a GPU machine in one command, each step with a time limit.

python benchmarks/gpu.py --out FOLDER [--seconds 480] [--steps tests,pipeline] [--device cpu]

Each step is a program. A step that ends early leaves its time to the next steps. A step that fails
or hangs is killed with every process that it started, and the next step begins. At every moment
FOLDER holds the results so far: ``results.md``, ``results.json``, and a ``STEP.log`` for each step,
with full tracebacks.

Exit codes: 0, 1 if a step failed or ran out of time, 2 if no step could begin.
``gpu_machine.md`` lists what the machine must have, and how to bring the missing packages.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import re
import resource
import selectors
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata, util
from pathlib import Path
from typing import IO, Any

from child import started
from measure import format_cell

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
_OF_THE_MACHINE = ("torch", "torchvision", "numpy", "cv2", "pytest", "PIL")
_GRACE = 3.0  # seconds for a program that hangs to write the stacks of its threads
_LAST_LINES = 30


@dataclasses.dataclass(frozen=True)
class Step:
    """A program to run.

    Attributes:
        name: The name on the command line, and of the log.
        title: The heading in the results.
        seconds: The share of 480 seconds.
        command: Called with the device and the limit in seconds; returns arguments of Python.
        has_quick: The program knows ``--quick``.
    """

    name: str
    title: str
    seconds: float
    command: Callable[[str, float], Sequence[object]]
    has_quick: bool = True


def _tests(device: str, _: float) -> Sequence[object]:
    # The machine has other versions of the packages than CI: their warnings are no errors there.
    options = ["-v", "-W", "default", "-p", "no:cacheprovider", "--timeout=60"]
    return ["-m", "pytest", "tests/gpu", "-n", 4 if device == "cuda" else 2, *options]


def _pipeline(device: str, seconds: float) -> Sequence[object]:
    return [HERE / "gpu_pipeline.py", "--json", "--device", device, "--seconds", 0.8 * seconds]


def _model_infer(device: str, seconds: float) -> Sequence[object]:
    command = [HERE / "model_infer.py", "--json", "--engine", "torch", "--device", device]
    if device == "cuda":  # 22 measurements take half of the time, loading the rest
        model = ["--depth", 101, "--precision", "fp16", "--cuda-graph", "--rounds", 3]
        return [*command, *model, "--seconds", seconds / 44]
    return [*command, "--depth", 26, "--sizes", "2,8", "--rounds", 1, "--seconds", seconds / 12]


def _http(device: str, seconds: float) -> Sequence[object]:
    workers = "0,4,8" if device == "cuda" else "0,2"
    command = [HERE / "http_images.py", "--json", "--device", device, "--workers", workers]
    return [*command, "--seconds", seconds / 25]


def _cpu_chain(device: str, seconds: float) -> Sequence[object]:
    threads = "1,4,8,16" if device == "cuda" else "1,2"
    return [HERE / "image_threads.py", "--json", "--threads", threads, "--seconds", 0.7 * seconds]


STEPS = (
    # The first step reads PyTorch from a cold disk.
    Step("machine", "The machine", 20, lambda *_: [HERE / "machine.py", "--json"], False),
    Step("tests", "The tests of the CUDA path", 100, _tests, False),
    Step(
        "pipeline",
        "P1: JPEG to class. Goals: >= 1.00 of by hand, >= 0.90 of the bare forward, >= 40 (tf32) "
        "and 65 (fp16) of naive",
        170,
        _pipeline,
    ),
    Step(
        "model_infer",
        "P2: Model.infer from 32 threads. Goal: >= 20 of the naive service",
        60,
        _model_infer,
    ),
    Step("http", "JPEGs by HTTP", 80, _http),
    Step("cpu_chain", "The CPU image chain by threads", 50, _cpu_chain),
)


_NAMES = ",".join(step.name for step in STEPS)


class Results:
    """The results of all steps so far; every change is written to the folder at once."""

    def __init__(self, folder: Path, title: str) -> None:
        """Starts without a step.

        Args:
            folder: Receives ``results.md`` and ``results.json``.
            title: The heading.
        """
        self._folder, self._title = folder, title
        self._steps: list[dict[str, Any]] = []

    def begin(self, step: Step, limit: float) -> None:
        """Adds a step in the state "running"."""
        self._steps.append(
            {"name": step.name, "title": step.title, "state": "running", "limit": limit}
        )
        self._steps[-1] |= {"seconds": 0.0, "tables": [], "log": ""}
        self.write()

    def add(self, table: dict[str, Any]) -> None:
        """Adds a table to the current step, or replaces the table with the same title."""
        tables = self._steps[-1]["tables"]
        for place, known in enumerate(tables):
            if known["title"] == table["title"]:
                tables[place] = table
                break
        else:
            tables.append(table)
        self.write()

    def end(self, state: str, seconds: float, log: str) -> None:
        """Sets the state of the current step when it has ended.

        Args:
            state: ``done``, ``failed (STATUS)`` or ``out of time``.
            seconds: How long the step ran.
            log: The last lines of the log, for a step that is not done.
        """
        self._steps[-1] |= {"state": state, "seconds": round(seconds, 1), "log": log}
        self.write()

    @property
    def has_failed(self) -> bool:
        """Whether a step is not done."""
        return any(step["state"] != "done" for step in self._steps)

    def write(self) -> None:
        """Replaces both files."""
        _replace(self._folder / "results.json", json.dumps(self._steps, indent=1))
        _replace(self._folder / "results.md", self.markdown())

    def markdown(self) -> str:
        """Returns the results as Markdown."""
        rows = [[s["name"], s["state"], s["seconds"], round(s["limit"], 1)] for s in self._steps]
        lines = [f"# {self._title}", ""]
        lines += _format_table({"columns": ["step", "state", "seconds", "of"], "rows": rows})
        for step in self._steps:
            lines += ["", f"## {step['title']}"]
            for table in step["tables"]:
                lines += ["", f"**{table['title']}**", "", *_format_table(table)]
            if step["log"]:
                lines += ["", f"{step['state']}; the end of {step['name']}.log:", ""]
                lines += ["```text", step["log"], "```"]
        return "\n".join(lines) + "\n"


def _format_table(table: dict[str, Any]) -> Iterator[str]:
    yield _format_row(table["columns"])
    yield _format_row(["---"] * len(table["columns"]))
    yield from map(_format_row, table["rows"])


def _format_row(cells: Sequence[object]) -> str:
    return f"| {' | '.join(format_cell(cell).replace('|', '/') for cell in cells)} |"


def _replace(path: Path, text: str) -> None:
    beside = path.with_suffix(".part")
    beside.write_text(text)
    beside.replace(path)


class TableParser:
    """Parses the tables in the output of a step: lines of JSON, or the outcomes of pytest."""

    _OUTCOME = re.compile(r"\b(PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS) +tests/")
    _REASON = re.compile(r"^(?:FAILED|ERROR) (tests/[^\s\[]+(?:\[.*?\])?)(?: - (.*))?$")

    def __init__(self) -> None:
        """Starts without an outcome."""
        self._outcomes: dict[str, int] = {}
        self._reasons: list[list[object]] = []

    def read(self, line: str) -> dict[str, Any] | None:
        """Returns the table that a line of output completes, or None."""
        if line.startswith('{"title": '):
            found: dict[str, Any] = json.loads(line)
            return found
        if reason := self._REASON.match(line):
            self._reasons.append([reason[1], (reason[2] or "")[:200]])
            return {"title": "What failed", "columns": ["test", "why"], "rows": self._reasons}
        if outcome := self._OUTCOME.search(line):
            name = outcome[1].lower()
            self._outcomes[name] = self._outcomes.get(name, 0) + 1
            rows = [[name, count] for name, count in sorted(self._outcomes.items())]
            return {"title": "tests/gpu", "columns": ["", "tests"], "rows": rows}
        return None


def run(step: Step, given: argparse.Namespace, limit: float, results: Results) -> None:
    """Runs a step until it ends or the limit is over, and adds its tables to the results."""
    command = ["-u", "-X", "faulthandler", *map(str, step.command(given.device, limit))]
    command += ["--quick"] if given.quick and step.has_quick else []
    results.begin(step, limit)
    start = time.monotonic()
    path = given.out / f"{step.name}.log"
    with path.open("w") as log:
        log.write(f"$ python {' '.join(command)}\n")
        log.flush()
        with started(
            [sys.executable, *command], cwd=ROOT, env=_environment(), stdout=-1, stderr=log
        ) as process:
            parser = TableParser()
            for line in _read_lines(process.stdout, start + limit):
                if not line.startswith('{"title": '):
                    log.write(line)
                    log.flush()
                if table := parser.read(line):
                    results.add(table)
            status = _finish(process, start + limit)
    state = "done" if status == 0 else "out of time" if status is None else f"failed ({status})"
    text = "" if status == 0 else _read_tail(path)
    results.end(state, time.monotonic() - start, text)


def _read_lines(stream: IO[bytes], until: float) -> Iterator[str]:
    """Yields the lines of a stream until the stream ends or the time is over."""
    held = b""
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while selector.select(max(0.0, until - time.monotonic())):
            data = os.read(stream.fileno(), 1 << 16)
            if not data:
                break
            *whole, held = (held + data).split(b"\n")
            for line in whole:
                yield line.decode(errors="replace") + "\n"
    if held:
        yield held.decode(errors="replace") + "\n"


def _finish(process: Any, until: float) -> int | None:
    """Returns the exit status; None for a process that had to be aborted."""
    with contextlib.suppress(TimeoutError):
        return _wait(process, max(0.5, until - time.monotonic()))
    process.send_signal(signal.SIGABRT)  # faulthandler writes the stacks of all threads
    with contextlib.suppress(TimeoutError):
        _wait(process, _GRACE)
    return None


def _wait(process: Any, seconds: float) -> int:
    descriptor = os.pidfd_open(process.pid)
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_READ)
            if not selector.select(seconds):
                raise TimeoutError
    finally:
        os.close(descriptor)
    status: int = process.wait()
    return status


def _read_tail(path: Path) -> str:
    lines = path.read_text(errors="replace").splitlines()[-_LAST_LINES:]
    return "\n".join(line[:300] for line in lines)


def _environment() -> dict[str, str]:
    """Returns the environment of the steps, where ``modelflow`` is the checkout."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    # pytest cuts the reason of a failure to the width of the terminal.
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "COLUMNS": "240"}


def find_missing(device: str) -> list[str]:
    """Returns the packages that are not installed: the machine's own, and ``gpu_wheels.txt``."""
    names = [name for name in _OF_THE_MACHINE if device == "cuda" or name != "torchvision"]
    found = [name for name in names if util.find_spec(name) is None]
    for line in (HERE / "gpu_wheels.txt").read_text().splitlines():
        name = re.split(r"[=<>#]", line)[0].strip()
        with contextlib.suppress(metadata.PackageNotFoundError):
            if name:
                metadata.version(name)
            continue
        found.append(name)
    return found


def parse_steps(text: str) -> list[Step]:
    """Returns the steps that ``text`` names, in the order in which they run.

    Raises:
        argparse.ArgumentTypeError: a name is unknown.
    """
    names = text.split(",")
    known = [step.name for step in STEPS]
    for name in names:
        if name not in known:
            message = f"got {name!r}; expected some of {_NAMES}"
            raise argparse.ArgumentTypeError(message)
    return [step for step in STEPS if step.name in names]


def main() -> int:
    """Runs the steps; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="the folder for the results")
    parser.add_argument(
        "--seconds", type=float, default=480.0, help="time for all steps (default: 480)"
    )
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument(
        "--steps",
        type=parse_steps,
        default=list(STEPS),
        help=f"some of {_NAMES}",
    )
    parser.add_argument("--quick", action="store_true", help="show that the programs run")
    given = parser.parse_args()
    if absent := find_missing(given.device):
        print(f"not installed: {', '.join(absent)}; see benchmarks/gpu_machine.md", file=sys.stderr)
        return 2
    sys.path.insert(0, str(ROOT))
    from modelflow.device.driver import device_count

    if given.device == "cuda" and not device_count():
        text = "the driver sees no GPU; --device cpu shows that the program runs"
        print(text, file=sys.stderr)
        return 2
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a step that hangs is aborted
    given.out.mkdir(parents=True, exist_ok=True)
    results = Results(given.out, f"modelflow on {given.device}, {time.strftime('%Y-%m-%d %H:%M')}")
    until, steps = time.monotonic() + given.seconds - _GRACE, list(given.steps)
    while steps:
        share = steps[0].seconds / sum(step.seconds for step in steps)
        step = steps.pop(0)
        limit = share * (until - time.monotonic())
        print(f"{step.name}: at most {limit:.0f} s", flush=True)
        run(step, given, limit, results)
    print(f"\n{results.markdown()}")
    return int(results.has_failed)


if __name__ == "__main__":
    sys.exit(main())
