"""What a process was doing when it died: the supervisor's side of `modelflow.serve.activity`."""

import mmap
import os
import re
import signal
import time
from dataclasses import dataclass, field

from modelflow.serve.activity import MOST, State, Version
from modelflow.serve.replicas.frames import Message

__all__ = ["Record", "Suspect"]

# Whoever sends these is outside; the system's own memory killer is among them.
_FROM_OUTSIDE = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
_LONGEST = 1 << 20
_THREAD = re.compile(r"^Current thread 0x([0-9a-f]+)[^\n]*\n(?:  [^\n]*\n)*", re.MULTILINE)


@dataclass(frozen=True)
class Suspect:
    """A version that may have ended a process.

    Attributes:
        version: Its model's name, and its number.
        state: What was being done for it.
        since: When its load began, in seconds of `time.monotonic`.
    """

    version: Version
    state: State
    since: float = field(default=0.0, compare=False)


@dataclass(slots=True)
class _Known:
    """What a process has said of a version."""

    version: Version
    since: float
    threads: frozenset[int] = frozenset()


class Record:
    """The memory that a process writes, and what it has said of it."""

    def __init__(self) -> None:
        """Makes the memory.

        Raises:
            OSError: there are too many descriptors; nothing is left of it.
        """
        self._activity = os.memfd_create("modelflow-activity")
        try:
            os.ftruncate(self._activity, MOST)
            self._memory = mmap.mmap(self._activity, MOST, prot=mmap.PROT_READ)
            self._fault = os.memfd_create("modelflow-fault")
        except OSError:
            os.close(self._activity)
            raise
        self._known: dict[int, _Known] = {}

    @property
    def descriptors(self) -> tuple[int, int]:
        """What the process is given: where it writes what it does, and where a fault is told."""
        return self._activity, self._fault

    def hear(self, message: Message) -> Version | None:
        """Takes what the process says of itself; returns a version that has been loaded."""
        if "doing" in message:
            version = (message["model"], message["version"])
            self._known[message["doing"]] = _Known(version, time.monotonic())
            return None
        known = self._known[message["loaded"]]
        known.threads = frozenset(message["threads"])
        return known.version

    def fault(self) -> str:
        """Returns what Python has told of a fatal error: its kind, and where the thread was."""
        told = self._read_fault()
        thread = _THREAD.search(told)
        kind = told.partition("\n")[0]
        return kind if thread is None else f"{kind}\n{thread[0].rstrip()}"

    def _read_fault(self) -> str:
        return os.pread(self._fault, _LONGEST, 0).decode(errors="replace")

    def suspects(self, code: int, is_still: bool = False) -> list[Suspect]:
        """Returns the versions that may have ended the process.

        The one whose thread has failed, if that is known. Else all that were being loaded, and,
        unless it was ended from outside, those with requests under way.

        Args:
            code: Its exit code, or less than 0: the signal's number.
            is_still: It was killed because it stood still.
        """
        active = [
            (known, Suspect(known.version, State(self._memory[place]), known.since))
            for place, known in self._known.items()
            if self._memory[place] != State.IDLE
        ]
        failed = _THREAD.search(self._read_fault())
        if failed is not None:
            thread = int(failed[1], 16)
            found = [suspect for known, suspect in active if thread in known.threads]
            if found:
                return found
        is_outside = -code in _FROM_OUTSIDE and not is_still
        return [
            suspect for _, suspect in active if suspect.state is State.LOADING or not is_outside
        ]

    def close(self) -> None:
        """Gives the memory back."""
        self._memory.close()
        os.close(self._activity)
        os.close(self._fault)
