"""Tests and benchmarks of a GPU machine in one command, each step with a time limit.

python benchmarks/gpu.py --out FOLDER [--seconds 480] [--steps tests,pipeline] [--device cpu]

Each step is a program. A step that ends early leaves its time to the next steps. A step that fails
or hangs is killed with every process that it started, and the next step begins. At every moment
FOLDER holds the results so far: ``results.md``, ``results.json``, and a ``STEP.log`` for each step,
with full tracebacks.

Exit codes: 0, 1 if a step failed or ran out of time, 2 if no step could begin, 128 + N after
signal N.
``gpu_machine.md`` lists the requirements of the machine, and how to install the missing packages.
"""

import argparse
import contextlib
import dataclasses
import hashlib
import math
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib import metadata, util
from pathlib import Path
from typing import IO, NoReturn

from limited import LimitedProgram, adopt_orphans
from machine import machine
from step_results import Results, TableParser

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
_OF_THE_MACHINE = ("torch", "torchvision", "numpy", "cv2", "pytest", "PIL")
_RESERVE = 8.0  # seconds to abort the last step, if it hangs, and to print the results
_LAST_LINES = 40
_LARGEST_LOG = 8 << 20  # bytes of standard output


@dataclasses.dataclass(frozen=True)
class Step:
    """A program to run.

    Attributes:
        name: The name on the command line, and of the log.
        title: The heading in the results.
        weight: The share of the time that is left, beside the weights of the steps behind it.
        command: Called with the arguments and the limit in seconds; returns arguments of Python.
    """

    name: str
    title: str
    weight: float
    command: Callable[[argparse.Namespace, float], Sequence[object]]


def _program(name: str, given: argparse.Namespace) -> list[object]:
    return [HERE / name, "--json", *(["--quick"] if given.quick else [])]


def _tests(given: argparse.Namespace, _: float) -> Sequence[object]:
    # The machine has other versions of the packages than CI: their warnings are no errors there.
    options = ["-v", "-W", "default", "-p", "no:cacheprovider", "--timeout=60"]
    return ["-m", "pytest", "tests/gpu", "-n", 4 if given.device == "cuda" else 2, *options]


def _pipeline(given: argparse.Namespace, limit: float) -> Sequence[object]:
    command = [*_program("gpu_pipeline.py", given), "--device", given.device]
    return [*command, "--seconds", 0.8 * limit]


def _model_infer(given: argparse.Namespace, limit: float) -> Sequence[object]:
    command = [*_program("model_infer.py", given), "--engine", "torch", "--device", given.device]
    if given.device == "cpu":
        return [*command, "--depth", 26, "--sizes", "2,8", "--rounds", 1, "--seconds", limit / 12]
    # 22 measurements take half of the time, loading the rest.
    model = ["--depth", 101, "--precision", "fp16", "--cuda-graph", "--rounds", 3]
    return [*command, *model, "--seconds", limit / 44]


def _http(given: argparse.Namespace, limit: float) -> Sequence[object]:
    is_gpu = given.device == "cuda"
    command = [*_program("http_images.py", given), "--device", given.device]
    command += ["--workers", "0,4,8" if is_gpu else "0,2", "--connections", 64 if is_gpu else 8]
    return [*command, "--seconds", limit / 25]


def _cpu_chain(given: argparse.Namespace, limit: float) -> Sequence[object]:
    threads = "1,4,8,16" if given.device == "cuda" else "1,2"
    command = [*_program("image_threads.py", given), "--threads", threads]
    return [*command, "--seconds", 0.7 * limit]


STEPS = (
    # The first step reads PyTorch from a cold disk.
    Step("machine", "The machine", 60, lambda *_: [HERE / "machine.py", "--json"]),
    Step("tests", "The tests of the CUDA path", 100, _tests),
    Step(
        "pipeline",
        "P1: JPEG to class. Goals on a GPU: >= 1.00 of by hand, >= 0.90 of the bare forward, >= 40 "
        "(tf32) and 65 (fp16) of naive",
        170,
        _pipeline,
    ),
    Step(
        "model_infer",
        "P2: Model.infer from 32 threads. Goal on a GPU: >= 20 of the naive service",
        60,
        _model_infer,
    ),
    Step("http", "JPEGs by HTTP", 80, _http),
    Step("cpu_chain", "The CPU image chain by threads", 50, _cpu_chain),
)


_NAMES = ",".join(step.name for step in STEPS)


def run(step: Step, given: argparse.Namespace, limit: float, results: Results) -> None:
    """Runs a step until its end or its limit, and adds the step's tables to the results."""
    command = ["-u", *map(str, step.command(given, limit))]
    results.begin(step.name, step.title, limit)
    path, start, state = given.out / f"{step.name}.log", time.monotonic(), "cut off"
    if limit < 1:
        results.end("no time", 0.0, 0.0, "")
        return
    with machine() as ran_on:
        try:
            with path.open("w", buffering=1) as log:
                log.write(f"$ python {' '.join(command)}\n")
                status = _run(command, start + limit, log, results)
            state = "out of time" if status is None else f"failed ({status})"
            state = "done" if status == 0 else state
        except OSError as error:  # of the log: a full disk
            state = f"failed ({error})"
        finally:
            text = "" if state == "done" else _read_tail(path)
            seconds = time.monotonic() - start
            results.end(state, round(seconds, 1), round(ran_on.others(), 2), text)
    print(f"{step.name}: {state}, {seconds:.0f} s", flush=True)


def _run(command: Sequence[str], until: float, log: IO[str], results: Results) -> int | None:
    parser, room = TableParser(), _LARGEST_LOG
    with LimitedProgram(command, until, log, ROOT) as program:
        for line in program.lines():
            if table := parser.read(line):
                results.add(table)
            if not line.startswith('{"title": ') and room > 0:
                log.write(line[:room])
                room -= len(line)
                log.write("" if room > 0 else "\n... the log is full\n")
    return program.status


def _read_tail(path: Path) -> str:
    with contextlib.suppress(OSError):
        lines = path.read_text(errors="replace").splitlines()
        # Behind the stacks, Python lists the extension modules in a very long line.
        lines = [line for line in lines if not line.startswith("Extension modules:")]
        return "\n".join(line[:300] for line in lines[-_LAST_LINES:])
    return ""


def set_environment(device: str, folder: str) -> None:
    """Sets the environment of the steps.

    Args:
        device: ``cuda``: the tests fail where PyTorch sees no GPU.
        folder: The folder of all temporary files.
    """
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ |= {
        "PYTHONPATH": os.pathsep.join(paths),  # modelflow is the checkout's
        "PYTHONFAULTHANDLER": "1",
        "COLUMNS": "240",  # pytest cuts the reason of a failure to the width of the terminal
        "TMPDIR": folder,
        "MODELFLOW_GPU": "1" if device == "cuda" else "",
    }
    if device == "cpu":  # the threads of PyTorch would wait for one another, spinning
        os.environ["OMP_NUM_THREADS"] = "1"


def find_missing(device: str) -> list[str]:
    """Returns the packages that cannot be used: the machine's own, and ``gpu_wheels.txt``."""
    names = [name for name in _OF_THE_MACHINE if device == "cuda" or name != "torchvision"]
    found = [name for name in names if util.find_spec(name) is None]
    lines = (HERE / "gpu_wheels.txt").read_text().splitlines()
    for name in filter(None, (re.split(r"[=<>#]", line)[0].strip() for line in lines)):
        try:
            files = metadata.distribution(name).files or []
        except metadata.PackageNotFoundError:
            found.append(name)
            continue
        tags = {tag[1] for file in files if (tag := re.search(r"\.cpython-(\d+)", file.name))}
        own = f"{sys.version_info.major}{sys.version_info.minor}"
        if tags and own not in tags:
            found.append(f"{name} (it is there for Python {', '.join(tags)}, this is {own})")
    return found


def parse_steps(text: str) -> list[Step]:
    """Returns the steps that ``text`` names, in the order in which they run.

    Raises:
        argparse.ArgumentTypeError: a name is unknown.
    """
    names = [name.strip() for name in text.split(",")]
    known = [step.name for step in STEPS]
    for name in names:
        if name not in known:
            message = f"got {name!r}; expected some of {_NAMES}"
            raise argparse.ArgumentTypeError(message)
    return [step for step in STEPS if step.name in names]


def parse_seconds(text: str) -> float:
    """Returns a number of seconds.

    Raises:
        argparse.ArgumentTypeError: no step could run in them.
    """
    with contextlib.suppress(ValueError):
        if math.isfinite(seconds := float(text)) and seconds >= 2 * _RESERVE:
            return seconds
    message = f"got {text!r}; expected a number of at least {2 * _RESERVE:.0f}"
    raise argparse.ArgumentTypeError(message)


def describe_run(given: argparse.Namespace) -> dict[str, object]:
    """Returns the facts about a run: its time, its sources and its command."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12"]
    commit = ""
    with contextlib.suppress(OSError):  # a copy of the checkout may have no git
        commit = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    sources = hashlib.sha256()
    for folder in ("modelflow", "flowunits", "benchmarks"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            sources.update(path.read_bytes())
    return {
        "command": f"benchmarks/gpu.py {' '.join(sys.argv[1:])}",
        "device": given.device,
        "began": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        "commit": commit.strip() or "unknown",
        "sources (SHA-256)": sources.hexdigest()[:16],
    }


def _exit_by_signal(number: int, _: object) -> NoReturn:
    raise SystemExit(128 + number)


def main() -> int:
    """Runs the steps; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="a folder without results")
    parser.add_argument("--seconds", type=parse_seconds, default=480.0, help="for all steps: 480")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--steps", type=parse_steps, default=list(STEPS), help=f"some of {_NAMES}")
    parser.add_argument("--quick", action="store_true", help="show that the programs run")
    given = parser.parse_args()
    given.out = given.out.absolute()
    if absent := find_missing(given.device):
        print(f"not installed: {', '.join(absent)}; see benchmarks/gpu_machine.md", file=sys.stderr)
        return 2
    sys.path.insert(0, str(ROOT))
    from modelflow.device.driver import device_count

    if given.device == "cuda" and not device_count():
        text = "the driver sees no GPU; --device cpu shows that the program runs"
        print(text, file=sys.stderr)
        return 2
    try:
        results = Results(given.out, describe_run(given))
    except OSError as error:
        print(f"--out: {error}; give a folder without results", file=sys.stderr)
        return 2
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _exit_by_signal)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a step that hangs is aborted
    adopt_orphans()
    try:
        run_steps(given, results)
    finally:
        print(f"\n{results.markdown()}", flush=True)
    return int(results.has_failed)


def run_steps(given: argparse.Namespace, results: Results) -> None:
    """Runs the steps by their order, each in its share of the remaining time."""
    until, steps = time.monotonic() + given.seconds - _RESERVE, list(given.steps)
    with tempfile.TemporaryDirectory(prefix="gpu-", ignore_cleanup_errors=True) as folder:
        set_environment(given.device, folder)
        while steps:
            share = steps[0].weight / sum(step.weight for step in steps)
            limit = share * (until - time.monotonic())
            print(f"{steps[0].name}: at most {limit:.0f} s", flush=True)
            run(steps.pop(0), given, round(limit, 1), results)


if __name__ == "__main__":
    sys.exit(main())
