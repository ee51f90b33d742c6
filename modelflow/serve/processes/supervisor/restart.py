"""When a replica that ended is replaced, and which model version is suspected of its death.

The replica with the models A and B dies while both are loaded: each may have been it, and both are
loaded alone from then on. It dies again while A is loaded: A is out of service, the next replica
comes without it, and B is loaded as any other.
"""

import mmap
import os
import re
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from modelflow.serve.activity import MOST, ActivityState, Version
from modelflow.serve.processes.control_channel import Message

_LONGEST = 30.0


class Backoff:
    """The pause before a restart: none, then 1, 2, 4 ... 30 s while processes keep ending early."""

    def __init__(self, well: float) -> None:
        """Begins with nothing gone wrong.

        Args:
            well: Seconds after which one that has ended had served: it is replaced at once.
        """
        self._well = well
        self._pause = 0.0

    def after(self, seconds: float) -> float:
        """Returns for how many seconds to wait.

        Args:
            seconds: How long the one that has ended had lived.
        """
        if seconds >= self._well:
            self._pause = 0.0
        pause = self._pause
        self._pause = min(max(1.0, 2 * pause), _LONGEST)
        return pause


# Whoever sends these is outside; the system's own memory killer is among them.
_FROM_OUTSIDE = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
_LONGEST_REPORT = 1 << 20
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
    state: ActivityState
    since: float = field(default=0.0, compare=False)


@dataclass(slots=True)
class _Known:
    """What a process has said of a version."""

    version: Version
    since: float
    threads: frozenset[int] = frozenset()


class ActivityReader:
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
        return os.pread(self._fault, _LONGEST_REPORT, 0).decode(errors="replace")

    def suspects(self, code: int, is_still: bool = False) -> list[Suspect]:
        """Returns the versions that may have ended the process.

        The one whose thread has failed, if that is known. Else all that were being loaded, and,
        unless it was ended from outside, those with requests under way.

        Args:
            code: Its exit code, or less than 0: the signal's number.
            is_still: It was killed because it stood still.
        """
        active = [
            (known, Suspect(known.version, ActivityState(self._memory[place]), known.since))
            for place, known in self._known.items()
            if self._memory[place] != ActivityState.IDLE
        ]
        failed = _THREAD.search(self._read_fault())
        if failed is not None:
            thread = int(failed[1], 16)
            found = [suspect for known, suspect in active if thread in known.threads]
            if found:
                return found
        is_outside = -code in _FROM_OUTSIDE and not is_still
        return [
            suspect
            for _, suspect in active
            if suspect.state is ActivityState.LOADING or not is_outside
        ]

    def close(self) -> None:
        """Gives the memory back."""
        self._memory.close()
        os.close(self._activity)
        os.close(self._fault)


_MOST = 2
# Seconds after which a death does not count any more.
_REMEMBERED = 3600.0


class DeathCounts:
    """Counts them over all processes of a server.

    Attributes:
        condemned: The versions that are out of service, and why.
    """

    def __init__(self) -> None:
        """Begins without any."""
        self._moments: dict[Suspect, list[float]] = {}
        self.condemned: dict[Version, str] = {}

    @property
    def suspects(self) -> Sequence[Version]:
        """The versions that may have ended a process while they were loaded."""
        found = {one.version for one in self._moments if one.state is ActivityState.LOADING}
        return sorted(found - self.condemned.keys())

    def note(self, suspects: Sequence[Suspect], now: float) -> Mapping[Version, str]:
        """Notes that a process has died.

        One that is the only suspect has done it. Of several, those that were loaded are to be
        loaded alone; those that worked say nothing, as whoever always works is among them. So one
        that is loaded alone has done it, too, whoever works beside it.

        What several processes load at a time ends them for one reason: that counts once.

        Args:
            suspects: Who may have been it.
            now: The moment, in seconds of `time.monotonic`.

        Returns:
            Those that are out of service from now on, and why.
        """
        loaded = [one for one in suspects if one.state is ActivityState.LOADING]
        for one in suspects:
            moments = [m for m in self._moments.get(one, ()) if now - m < _REMEMBERED]
            is_loaded = one.state is ActivityState.LOADING
            is_counted = is_loaded and bool(moments) and one.since < moments[-1]
            if not is_counted and (len(suspects) == 1 or (loaded == [one] and moments)):
                self._moments[one] = [*moments, now]
            elif is_loaded:
                self._moments[one] = moments or [now]
        found = {
            one.version: f"it has ended its process {_MOST} times while it {one.state.words}"
            for one in suspects
            if len(self._moments.get(one, ())) >= _MOST and one.version not in self.condemned
        }
        self.condemned |= found
        return found

    def note_loaded(self, version: Version) -> None:
        """Notes that a version has been loaded: what came before had another cause."""
        self._moments.pop(Suspect(version, ActivityState.LOADING), None)

    def forget(self, version: Version) -> None:
        """Forgets what a version has done: it is tried again."""
        self.condemned.pop(version, None)
        for state in ActivityState:
            self._moments.pop(Suspect(version, state), None)
