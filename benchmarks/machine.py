"""What a benchmark runs on, and the processor time and GPU time that are spent there."""

import contextlib
import os
import platform
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path

from child import started
from measure import Table

__all__ = ["GpuSamples", "cpu_seconds", "machine", "switches"]

_TICK = os.sysconf("SC_CLK_TCK")


def cpu_seconds(process: int) -> float:
    """Returns the processor time of a process, of all that it has started, and of what they have.

    In ticks of the system, of a hundredth of a second mostly.
    """
    total = 0.0
    for one in _family(process):
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


def _family(process: int) -> list[int]:
    """Returns a process and all that it has started."""
    found = [process]
    for thread in Path(f"/proc/{process}/task").glob("*"):
        try:
            children = (thread / "children").read_text().split()
        except OSError:  # the thread has just ended
            continue
        for child in children:
            found += _family(int(child))
    return found


class GpuSamples:
    """Samples of the use and memory of the first GPU while a block runs, five a second.

    Without ``nvidia-smi`` there are no samples.
    """

    _COMMAND = (
        *("nvidia-smi", "--id=0", "--loop-ms=200", "--format=csv,noheader,nounits"),
        "--query-gpu=utilization.gpu,memory.used",
    )

    def __enter__(self) -> "GpuSamples":
        """Starts ``nvidia-smi``."""
        self._found: list[tuple[float, float, float]] = []  # moment, percent, MiB
        with contextlib.ExitStack() as stack:
            if shutil.which(self._COMMAND[0]):
                process = stack.enter_context(started(self._COMMAND, stdout=subprocess.PIPE))
                reader = threading.Thread(target=self._read, args=(process.stdout,))
                reader.start()
                stack.callback(reader.join)
                stack.callback(process.kill)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *raised: object) -> None:
        """Stops ``nvidia-smi``."""
        self._stack.close()

    def between(self, start: float, end: float) -> tuple[float | str, float | str]:
        """Returns the mean use in percent and the largest memory in MiB; ``""`` without samples.

        Args:
            start: The begin of the period, by `time.perf_counter`.
            end: The end of the period.
        """
        found = [sample for sample in self._found if start <= sample[0] <= end]
        if not found:
            return "", ""
        return sum(sample[1] for sample in found) / len(found), max(s[2] for s in found)

    def _read(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            with contextlib.suppress(ValueError):  # "[N/A]": the GPU does not report it
                percent, memory = map(float, line.decode().split(","))
                self._found.append((time.perf_counter(), percent, memory))


class machine:  # noqa: N801 - a block: with machine() as ran_on
    """What a benchmark ran on: its processors, and what others took of them meanwhile."""

    def __enter__(self) -> "machine":
        """Begins to count."""
        self._began, self._busy, self._own = time.monotonic(), _busy(), _own()
        return self

    def __exit__(self, *raised: object) -> None:
        """Ends counting."""

    def __str__(self) -> str:
        """Says it, for the time until now."""
        seconds = time.monotonic() - self._began
        others = (_busy() - self._busy - (_own() - self._own)) / seconds
        return f"ran on {os.cpu_count()} processors, of which others took {max(0.0, others):.1f}"


def _busy() -> float:
    """Processor seconds of the machine that were not idle."""
    fields = [int(one) for one in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    return (sum(fields[:8]) - fields[3] - fields[4]) / _TICK


def _own() -> float:
    """Processor seconds of this process and of those that it has started and that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def describe_machine() -> list[list[object]]:
    """Returns rows of name and value: processors, GPU, and the versions of the packages."""
    import cv2
    import numpy as np
    import torch

    found: list[list[object]] = [
        ["processors", len(os.sched_getaffinity(0))],
        ["memory, GiB", os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)],
        ["Python", platform.python_version()],
        ["system", platform.platform()],
        ["NumPy", np.__version__],
        ["OpenCV", cv2.__version__],
        ["PyTorch", torch.__version__],
    ]
    with contextlib.suppress(ModuleNotFoundError):
        import torchvision

        found.append(["torchvision", torchvision.__version__])
    if not torch.cuda.is_available():
        return [*found, ["GPU", "none"]]
    gpu = torch.cuda.get_device_properties(0)
    query = ["nvidia-smi", "--query-gpu=driver_version,clocks.max.sm", "--format=csv,noheader"]
    with contextlib.suppress(OSError):
        said = subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()
        found.append(["driver, largest clock", said])
    capability = f"{gpu.major}.{gpu.minor}"
    return [
        *found,
        ["GPU", gpu.name],
        ["GPU memory, GiB", gpu.total_memory / (1 << 30)],
        ["GPU multiprocessors, capability", f"{gpu.multi_processor_count}, {capability}"],
        ["CUDA, cuDNN", f"{torch.version.cuda}, {torch.backends.cudnn.version()}"],
    ]


if __name__ == "__main__":
    table = Table("The machine", ["", "what"], as_json="--json" in sys.argv[1:])
    for row in describe_machine():
        table.add(*row)
    table.close()
