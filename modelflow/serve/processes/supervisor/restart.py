"""Restarts of ended replicas, and the model versions that are suspected of a death.

Example: a replica dies while models A and B are loading. Both are suspects, and each is loaded
alone from then on. The next replica dies while A is loading. A is then out of service, the next
replica starts without A, and B is loaded normally.
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
    """The pause before a restart: 0, then 1, 2, 4 ... 30 s while processes keep ending early."""

    def __init__(self, well: float) -> None:
        """Creates a backoff without earlier failures.

        Args:
            well: Seconds of life after which a process counts as healthy, and is replaced at once.
        """
        self._well = well
        self._pause = 0.0

    def after(self, seconds: float) -> float:
        """Returns the seconds to wait before the restart.

        Args:
            seconds: The lifetime of the ended process.
        """
        if seconds >= self._well:
            self._pause = 0.0
        pause = self._pause
        self._pause = min(max(1.0, 2 * pause), _LONGEST)
        return pause


# Signals from outside the process, for example from the kernel's out-of-memory killer.
_FROM_OUTSIDE = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
_LONGEST_REPORT = 1 << 20
_THREAD = re.compile(r"^Current thread 0x([0-9a-f]+)[^\n]*\n(?:  [^\n]*\n)*", re.MULTILINE)


@dataclass(frozen=True)
class Suspect:
    """A version that may have crashed a process.

    Attributes:
        version: The model's name and the version number.
        state: The activity of the version when the process died.
        since: The start of its load, in seconds of `time.monotonic`.
    """

    version: Version
    state: ActivityState
    since: float = field(default=0.0, compare=False)


@dataclass(slots=True)
class _Known:
    """The messages of a process about a version."""

    version: Version
    since: float
    threads: frozenset[int] = frozenset()


class ActivityReader:
    """The shared memory of a child process, and the messages that explain its bytes."""

    def __init__(self) -> None:
        """Creates the memory.

        Raises:
            OSError: the process has too many descriptors. Everything is closed again.
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
        """The descriptors for the child: for its activity, and for its fault report."""
        return self._activity, self._fault

    def hear(self, message: Message) -> Version | None:
        """Handles an activity message. Returns the version of a finished load, else None."""
        if "doing" in message:
            version = (message["model"], message["version"])
            self._known[message["doing"]] = _Known(version, time.monotonic())
            return None
        known = self._known[message["loaded"]]
        known.threads = frozenset(message["threads"])
        return known.version

    def fault(self) -> str:
        """Returns the kind of a fatal error and the stack of its thread, from Python's report."""
        told = self._read_fault()
        thread = _THREAD.search(told)
        kind = told.partition("\n")[0]
        return kind if thread is None else f"{kind}\n{thread[0].rstrip()}"

    def _read_fault(self) -> str:
        return os.pread(self._fault, _LONGEST_REPORT, 0).decode(errors="replace")

    def suspects(self, code: int, is_still: bool = False) -> list[Suspect]:
        """Returns the versions that may have crashed the process.

        If the failed thread is known, this is the version of that thread. Otherwise these are all
        versions that were loading. Versions with requests under way are included, unless a signal
        from outside ended the process.

        Args:
            code: The exit code, or the negative signal number.
            is_still: The supervisor has killed the process because it did not respond.
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
        """Frees the memory."""
        self._memory.close()
        os.close(self._activity)
        os.close(self._fault)


_MOST = 2
# Seconds after which a death no longer counts.
_REMEMBERED = 3600.0


class DeathCounts:
    """The counts of process deaths by suspected version, over all processes of a server.

    Attributes:
        condemned: The versions that are out of service, with the reasons.
    """

    def __init__(self) -> None:
        """Creates empty counts."""
        self._moments: dict[Suspect, list[float]] = {}
        self.condemned: dict[Version, str] = {}

    @property
    def suspects(self) -> Sequence[Version]:
        """The versions that may have crashed a process during their load."""
        found = {one.version for one in self._moments if one.state is ActivityState.LOADING}
        return sorted(found - self.condemned.keys())

    def note(self, suspects: Sequence[Suspect], now: float) -> Mapping[Version, str]:
        """Counts the death of a process.

        A single suspect is charged with the death. Among several suspects, each version that was
        loading becomes suspected, and is loaded alone from then on. Versions with requests under
        way are not charged, because a busy version is among the suspects of every death. A
        suspected version that was loading alone is charged, even if other versions had requests
        under way.

        Several processes that load the same version at the same time die for the same reason. Their
        deaths count once.

        Args:
            suspects: The versions that may have crashed the process.
            now: The time of the death, in seconds of `time.monotonic`.

        Returns:
            The versions that are out of service from now on, with the reasons.
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
        """Clears the suspicion of a version that has loaded. Earlier deaths had another cause."""
        self._moments.pop(Suspect(version, ActivityState.LOADING), None)

    def forget(self, version: Version) -> None:
        """Clears all counts of a version, which is tried again."""
        self.condemned.pop(version, None)
        for state in ActivityState:
            self._moments.pop(Suspect(version, state), None)
