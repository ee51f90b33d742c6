"""Shared memory in which a process notes what it does for each version of a model.

A process that dies says nothing any more. So it writes a byte for each version into memory that its
supervisor has as well, before it runs code of the model: whether the version is being loaded, or
requests for it are under way. Which version a byte stands for it has said before. What supervisors
conclude from several deaths comes back the same way (`processes.supervisor.restart`): some
versions are out of service, and some are to be loaded alone, so that the next death has one cause.

A process that serves alone has all this for itself.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, MutableSequence
from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mmap import mmap

MOST = 4096
"""How many versions may be loaded at a time that have a byte; those beyond share the last one."""

Version = tuple[str, int]
"""The name of a model, and which version of it."""


class ActivityState(IntEnum):
    """What is done for a version."""

    IDLE = 0
    LOADING = 1
    """It is loaded, warmed up or unloaded."""
    WORKING = 2
    """Requests are under way."""

    @property
    def words(self) -> str:
        """What is done for the version, for messages: it ...; of one that is not idle."""
        return "was loaded" if self is ActivityState.LOADING else "worked for requests"


class VersionActivity:
    """The byte of one version. From any thread."""

    def __init__(self, memory: "MutableSequence[int] | mmap", place: int) -> None:
        """Made by `ActivityTable.begin`."""
        self._memory = memory
        self.place = place

    def work(self) -> None:
        """Notes that there are requests."""
        self._memory[self.place] = ActivityState.WORKING

    def rest(self) -> None:
        """Notes that there are none any more."""
        self._memory[self.place] = ActivityState.IDLE

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Notes inside the block that the version is being loaded."""
        self._memory[self.place] = ActivityState.LOADING
        try:
            yield
        finally:
            self.rest()


class ActivityTable:
    """The bytes of all versions, and what is known of versions that have ended processes.

    Attributes:
        condemned: The versions that are out of service, and why.
        suspects: Those that are loaded alone.
    """

    def __init__(
        self,
        memory: "MutableSequence[int] | mmap | None" = None,
        tell: Callable[[Mapping[str, Any]], object] = lambda _: None,
        condemned: Mapping[Version, str] | None = None,
        suspects: Collection[Version] = (),
    ) -> None:
        """Takes what a supervisor has given; nothing: there is none.

        Args:
            memory: `MOST` bytes.
            tell: Says something to the supervisor, from any thread.
            condemned: The versions that are out of service, and why.
            suspects: Those that are loaded alone.
        """
        self._memory = bytearray(MOST) if memory is None else memory
        self._tell = tell
        self._free = [*range(MOST - 1, -1, -1)]
        self.condemned = dict(condemned or {})
        self.suspects = set(suspects)

    def begin(self, name: str, version: int) -> VersionActivity:
        """Gives a version that is about to be loaded a byte, and says so."""
        place = self._free.pop() if self._free else MOST - 1
        self._tell({"doing": place, "model": name, "version": version})
        return VersionActivity(self._memory, place)

    def know_threads(self, doing: VersionActivity, threads: Collection[int]) -> None:
        """Says that the version has been loaded, and which threads run code of it."""
        self._tell({"loaded": doing.place, "threads": sorted(threads)})

    def end(self, doing: VersionActivity) -> None:
        """Takes the byte of a version back that is unloaded, or has not been loaded."""
        doing.rest()
        if doing.place < MOST - 1:
            self._free.append(doing.place)

    def acquit(self, name: str, version: int) -> None:
        """Has a version tried again: a client asks for it, or its files have changed."""
        if self.condemned.pop((name, version), None) is not None:
            self._tell({"acquitted": name, "version": version})
