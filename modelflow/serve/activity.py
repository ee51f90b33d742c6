"""Shared memory in which a process records its activity for each version of a model.

A process that dies cannot report the cause. So it shares one byte for each version with its
supervisor, and writes the byte before it runs code of the model. The byte says whether the version
is being loaded, or whether requests for it are running. A message tells the supervisor beforehand
which version a byte belongs to.

Supervisors draw conclusions from several deaths (`processes.supervisor.restart`) and pass them to
new processes. Some versions are taken out of service. Others are suspects, which are loaded one at
a time, because the next death then has only one possible cause.

A single process without a supervisor keeps this table in its own memory.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, MutableSequence
from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mmap import mmap

MOST = 4096
"""The number of bytes in the table. Versions beyond this number share the last byte."""

Version = tuple[str, int]
"""The name of a model and the number of its version."""


class ActivityState(IntEnum):
    """The activity of a process for one version."""

    IDLE = 0
    LOADING = 1
    """The version is being loaded, warmed up or unloaded."""
    WORKING = 2
    """Requests are running."""

    @property
    def words(self) -> str:
        """Returns the verb phrase for a message about a version that is not idle."""
        return "was loaded" if self is ActivityState.LOADING else "worked for requests"


class VersionActivity:
    """The byte of one version. From any thread."""

    def __init__(self, memory: "MutableSequence[int] | mmap", place: int) -> None:
        """Is called by `ActivityTable.begin` only."""
        self._memory = memory
        self.place = place

    def work(self) -> None:
        """Records that requests are running."""
        self._memory[self.place] = ActivityState.WORKING

    def rest(self) -> None:
        """Records that the version is idle."""
        self._memory[self.place] = ActivityState.IDLE

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Records, while the block runs, that the version is being loaded."""
        self._memory[self.place] = ActivityState.LOADING
        try:
            yield
        finally:
            self.rest()


class ActivityTable:
    """The bytes of all versions, and the versions that have killed processes.

    Attributes:
        condemned: The versions that are out of service, with the reasons.
        suspects: The versions that are loaded one at a time.
    """

    def __init__(
        self,
        memory: "MutableSequence[int] | mmap | None" = None,
        tell: Callable[[Mapping[str, Any]], object] = lambda _: None,
        condemned: Mapping[Version, str] | None = None,
        suspects: Collection[Version] = (),
    ) -> None:
        """Stores the values from the supervisor. The defaults are for a process without one.

        Args:
            memory: `MOST` bytes.
            tell: Sends a message to the supervisor, from any thread.
            condemned: The versions that are out of service, with the reasons.
            suspects: The versions that are loaded one at a time.
        """
        self._memory = bytearray(MOST) if memory is None else memory
        self._tell = tell
        self._free = [*range(MOST - 1, -1, -1)]
        self.condemned = dict(condemned or {})
        self.suspects = set(suspects)

    def begin(self, name: str, version: int) -> VersionActivity:
        """Assigns a byte to a version before the load, and notifies the supervisor."""
        place = self._free.pop() if self._free else MOST - 1
        self._tell({"doing": place, "model": name, "version": version})
        return VersionActivity(self._memory, place)

    def know_threads(self, doing: VersionActivity, threads: Collection[int]) -> None:
        """Notifies the supervisor that the version is loaded, and which threads run its code."""
        self._tell({"loaded": doing.place, "threads": sorted(threads)})

    def end(self, doing: VersionActivity) -> None:
        """Frees the byte of a version that was unloaded or that failed to load."""
        doing.rest()
        if doing.place < MOST - 1:
            self._free.append(doing.place)

    def acquit(self, name: str, version: int) -> None:
        """Puts a condemned version back into service, and notifies the supervisor.

        This happens when a client asks for the version, or when its files have changed.
        """
        if self.condemned.pop((name, version), None) is not None:
            self._tell({"acquitted": name, "version": version})
