"""What a benchmark runs on, and the processor time that is spent there."""

import os
import time
from pathlib import Path

__all__ = ["cpu_seconds", "machine", "switches"]

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
