"""The machine of a benchmark, and the processor time and GPU time that a benchmark spends."""

import contextlib
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

from child import started
from measure import Table

__all__ = ["GpuSamples", "cpu_seconds", "family", "machine", "switches"]

_TICK = os.sysconf("SC_CLK_TCK")


def cpu_seconds(process: int) -> float:
    """Returns the processor time of a process and of all its descendants.

    The resolution is a tick of the system, mostly a hundredth of a second.
    """
    total = 0.0
    for one in family(process):
        try:
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        total += sum(map(int, fields[11:15])) / _TICK  # its own, and of its children that ended
    return total


def switches(process: int) -> int:
    """Returns how often the threads that a process has now have waited for something."""
    total = 0
    for status in Path(f"/proc/{process}/task").glob("*/status"):
        try:
            text = status.read_text()
        except OSError:  # the thread has just ended
            continue
        total += int(text.partition("\nvoluntary_ctxt_switches:")[2].split(maxsplit=1)[0])
    return total


def family(process: int) -> list[int]:
    """Returns a process and all its descendants, itself first, parents before their children."""
    children: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(status.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has just ended
            continue
        children.setdefault(parent, []).append(int(status.parent.name))
    found = [process]
    for one in found:  # grows
        found += children.get(one, [])
    return found


class GpuSamples:
    """Samples of the first GPU while a block runs, five a second.

    Without ``nvidia-smi`` there are no samples.
    """

    columns = ("GPU %", "GPU MiB", "GPU MHz", "GPU W")
    """The values of `between`: mean use, largest memory, mean clock, mean power."""

    _QUERY = "utilization.gpu,memory.used,clocks.sm,power.draw"
    _COMMAND = ("nvidia-smi", "--id=0", "--loop-ms=200", "--format=csv,noheader,nounits")

    def __enter__(self) -> "GpuSamples":
        """Starts ``nvidia-smi``."""
        self._found: list[tuple[float, list[float | None]]] = []
        command = [*self._COMMAND, f"--query-gpu={self._QUERY}"]
        with contextlib.ExitStack() as stack:
            if shutil.which(command[0]):
                process = stack.enter_context(started(command, stdout=subprocess.PIPE))
                reader = threading.Thread(target=self._read, args=(process.stdout,))
                reader.start()
                stack.callback(reader.join)
                stack.callback(process.kill)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *raised: object) -> None:
        """Stops ``nvidia-smi``."""
        self._stack.close()

    def between(self, start: float, end: float) -> list[float | str]:
        """Returns a value for each of `columns`; ``""`` for a value that the GPU does not report.

        Args:
            start: The begin of the period, by `time.perf_counter`.
            end: The end of the period.
        """
        rows = [values for moment, values in self._found if start <= moment <= end]
        found: list[float | str] = []
        for name, column in zip(self.columns, zip(*rows, strict=True), strict=False):
            known = [value for value in column if value is not None]
            summary = max if name == "GPU MiB" else statistics.fmean
            found.append(summary(known) if known else "")
        return found or [""] * len(self.columns)

    def _read(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            cells = line.decode().split(",")
            if len(cells) == len(self.columns):  # else an error, in words
                self._found.append((time.perf_counter(), list(map(_number, cells))))


def _number(text: str) -> float | None:
    """Returns a number; None for ``[N/A]``."""
    with contextlib.suppress(ValueError):
        return float(text)
    return None


class machine:  # noqa: N801 - a block: with machine() as ran_on
    """The machine of a benchmark: its processors, and their use by other programs meanwhile."""

    def __enter__(self) -> "machine":
        """Begins to count."""
        self._began, self._busy, self._own = time.monotonic(), _busy(), _own()
        return self

    def __exit__(self, *raised: object) -> None:
        """Ends counting."""

    def others(self) -> float:
        """Returns how many processors others took until now."""
        seconds = time.monotonic() - self._began
        return max(0.0, (_busy() - self._busy - (_own() - self._own)) / seconds)

    def __str__(self) -> str:
        """Describes the use of the machine until now."""
        return f"ran on {os.cpu_count()} processors, of which others took {self.others():.1f}"


def _busy() -> float:
    """Returns the processor seconds of the machine that were not idle."""
    fields = [int(one) for one in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    return (sum(fields[:8]) - fields[3] - fields[4]) / _TICK


def _own() -> float:
    """Returns the processor seconds of this process and of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


PACKAGES = ("numpy", "opencv-python-headless", "torch", "torchvision", "simplejpeg", "pytest")


def describe_machine() -> Iterator[tuple[str, object]]:
    """Yields facts: processors, versions, GPU, and at last the slow facts about PyTorch."""
    yield "processors that may be used, in all", f"{len(os.sched_getaffinity(0))}, {os.cpu_count()}"
    with contextlib.suppress(OSError):
        yield "processor time by cgroup", Path("/sys/fs/cgroup/cpu.max").read_text().strip()
    with contextlib.suppress(OSError):
        models = re.findall(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
        yield "processor", models[0] if models else platform.machine()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    yield "memory, GiB", memory / (1 << 30)
    yield "Python", f"{platform.python_version()}, {platform.platform()}"
    for package in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            yield package, metadata.version(package)
    if shutil.which("nvidia-smi"):
        query = "name,driver_version,memory.total,clocks.max.sm,power.limit,pstate"
        command = ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"]
        said = subprocess.run(command, capture_output=True, text=True, check=False)
        yield f"GPU: {query}", " ".join((said.stdout + said.stderr).split())
    import torch

    yield "PyTorch's CUDA, cuDNN", f"{torch.version.cuda}, {torch.backends.cudnn.version()}"
    if not torch.cuda.is_available():
        yield "GPU that PyTorch sees", "none"
        return
    gpu = torch.cuda.get_device_properties(0)
    capability = f"capability {gpu.major}.{gpu.minor}"
    found = f"{gpu.name}, {capability}, {gpu.multi_processor_count} multiprocessors"
    yield "GPU that PyTorch sees", found


if __name__ == "__main__":
    table = Table("The machine", ["", "what"], as_json="--json" in sys.argv[1:])
    for row in describe_machine():
        table.add(*row)
    table.close()
