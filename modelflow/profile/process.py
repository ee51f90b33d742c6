"""Measures the process and the machine of a flow at one moment, for its snapshot."""

import contextlib
import gc
import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from modelflow.profile.gpu import gpu_figures
from modelflow.runtime.stats import NOTHING, ThreadTime, read_schedule

# Seconds between two probes of the interpreter's lock: few enough to cause no load, and enough for
# a median within a second.
_EVERY = 0.01
FRONT_END = "modelflow/http/"
"""The beginning of the names of threads that serve HTTP."""


def process_figures() -> dict[str, float]:
    """Returns growing counters, whose differences describe the time between two moments.

    Returns:
        The values that the system (Linux) provides. ``processor_seconds``: the time of all threads
        of this process. ``children_seconds``: the time of its child processes, such as those of
        ``workers=process``. ``native_seconds``: the time of living threads not started by Python,
        such as an engine's. ``resident_bytes``: the memory of this process now.
        ``machine_busy_seconds``: the time of all processors of the machine, used by any process.
        Inside a container it covers the whole machine, too. ``collection_seconds``: the time of
        Python's garbage collections since the first call of this function. ``front_end_seconds``:
        the time of a server's HTTP threads. ``front_end_runnable_seconds``: their time of waiting
        for a processor. ``front_ends``: the number of these threads. ``processes``: 1, and in the
        sum of several processes their number. On a machine with GPUs: ``gpus``, their number.
        ``gpu_share``: the sum of their shares of time at work. ``gpu_bytes``: their memory in use.
    """
    _COLLECTIONS.begin()
    found = {
        "processes": 1.0,
        "processor_seconds": time.process_time(),
        "children_seconds": _children(),
        "collection_seconds": _COLLECTIONS.seconds,
        **_front_end(),
        **_gpus(),
    }
    busy = _machine_busy()
    if busy is not None:
        found["machine_busy_seconds"] = busy
    found["native_seconds"] = _native()
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:  # another system
        return found
    return {**found, "resident_bytes": float(pages * os.sysconf("SC_PAGE_SIZE"))}


class _Collections:
    """The time of the garbage collections, during which no thread runs Python code."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._began = 0.0
        self._lock = threading.Lock()
        self._is_noting = False

    def begin(self) -> None:
        """Starts to note collections; does nothing the next time."""
        with self._lock:
            if not self._is_noting:
                self._is_noting = True
                gc.callbacks.append(self.note)

    def note(self, phase: str, _: Mapping[str, int]) -> None:
        """Notes the start or the end of a collection; see `gc.callbacks`."""
        if phase == "start":
            self._began = time.perf_counter()
        elif self._began:
            self.seconds += time.perf_counter() - self._began


_COLLECTIONS = _Collections()


def _front_end() -> dict[str, float]:
    """Returns the processor seconds of the threads that serve HTTP, and their number."""
    threads = [one for one in threading.enumerate() if one.name.startswith(FRONT_END)]
    if not threads:
        return {}
    times = [_schedule(one.native_id or 0) for one in threads]
    return {
        "front_end_seconds": sum(ran for ran, _ in times),
        "front_end_runnable_seconds": sum(waited for _, waited in times),
        "front_ends": float(len(threads)),
    }


def _gpus() -> dict[str, float]:
    """Returns the number of GPUs, and the sums of their figures."""
    gpus = [values for _, values in gpu_figures()]
    if not gpus:
        return {}
    share, used = (sum(one[name] for one in gpus) for name in ("utilization", "used"))
    return {"gpus": float(len(gpus)), "gpu_share": share, "gpu_bytes": float(used)}


def _children() -> float:
    """Returns the processor seconds of the child processes, ended ones included."""
    ended = os.times()
    found = ended.children_user + ended.children_system
    for task in _tasks():
        with contextlib.suppress(OSError):  # the thread has ended, or the kernel has no such file
            for child in Path(f"/proc/self/task/{task}/children").read_text().split():
                with contextlib.suppress(OSError):  # the child has ended
                    # bytes, because Linux cuts a program's name within a letter
                    fields = Path(f"/proc/{child}/stat").read_bytes().rpartition(b")")[2].split()
                    # utime, stime, and both of its own children: fields 14 to 17, see proc(5)
                    found += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return found


def _native() -> float:
    """Returns the processor seconds of the threads that Python has not started."""
    known = {thread.native_id for thread in threading.enumerate()}
    return sum(_schedule(task)[0] for task in _tasks() if task not in known)


def _schedule(thread: int) -> tuple[float, float]:
    return read_schedule(thread) or NOTHING


def _tasks() -> list[int]:
    """Returns the ids of all threads of this process, if the system (Linux) lists them."""
    folder = "/proc/self/task"
    return [int(name) for name in os.listdir(folder)] if os.path.isdir(folder) else []


def _machine_busy() -> float | None:
    try:
        with open("/proc/stat", encoding="ascii") as file:
            fields = [int(field) for field in file.readline().split()[1:]]
    except OSError:  # another system
        return None
    user, nice, system, _idle, _iowait, irq, softirq = fields[:7]
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


class LockProbe:
    """Measures how long a thread waits for the interpreter, while its ``with`` block runs.

    A thread asks to be woken every 10 ms. Its delay, minus the time without a processor, is the
    wait for the interpreter's lock. It is 0.1 ms if units release the lock. It is tens of
    milliseconds if several units compute in Python (David Beazley, "Understanding the Python GIL",
    2010).
    """

    def __init__(self) -> None:
        self._over = threading.Event()
        self._late: list[float] = []
        self._thread = threading.Thread(target=self._watch, name="modelflow-profile/lock")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    @property
    def figures(self) -> Mapping[str, float]:
        """``lock_wait_seconds``, the median of the waits, and ``lock_wait_p75_seconds``.

        The mapping is empty before the first measurement. In an idle process both values are the
        system's delay in waking a thread: up to 0.3 ms.
        """
        late = sorted(self._late)
        if not late:
            return {}
        return {
            "lock_wait_seconds": late[len(late) // 2],
            "lock_wait_p75_seconds": late[len(late) * 3 // 4],
        }

    def _watch(self) -> None:
        used = ThreadTime()
        before = used.seconds()[1]
        start = time.perf_counter()
        while not self._over.wait(_EVERY):
            now, waited = time.perf_counter(), used.seconds()[1]
            self._late.append(max(0.0, now - start - _EVERY - (waited - before)))
            start, before = time.perf_counter(), waited
