"""Replicas that are processes of this machine."""

import os
import pickle
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from modelflow.config.placement import PlacementConfig
from modelflow.errors import PlanError, ReplicaLostError
from modelflow.ipc import process as processes
from modelflow.ipc.memory_channel import open_channel
from modelflow.remote.channel_replica import ChannelReplica
from modelflow.remote.engine import Engine
from modelflow.remote.part import Part
from modelflow.remote.pool import Pool
from modelflow.remote.replica import Replica

if TYPE_CHECKING:
    import subprocess

    from modelflow.ipc.channel import Channel

_ENTRY = "modelflow.remote.replica_process:main"


class ProcessEngine(Engine):
    """Runs parts in processes of this machine: for units in Python that need processors of their
    own, for units that may crash, and to try out what is to run on a cluster.
    """

    _search_path: Sequence[str] = ()

    def pool(self, placement: PlacementConfig, parts: Sequence[Part]) -> Pool:
        """Returns the processes of a placement; see `Engine.pool`."""
        # Now: a library that another thread imports may change it for a moment.
        self._search_path = tuple(sys.path)
        return super().pool(placement, parts)

    def replica(self, placement: PlacementConfig, parts: Sequence[Part], number: int) -> Replica:
        """Makes a process that runs ``parts``; see `Engine.replica`."""
        return ProcessReplica(placement, parts, number, self._search_path)


class ProcessReplica(ChannelReplica):
    """A process, and a channel to it for each batch that may be under way."""

    def __init__(
        self,
        placement: PlacementConfig,
        parts: Sequence[Part],
        number: int,
        search_path: Sequence[str],
    ) -> None:
        """Stores what is to run."""
        super().__init__(placement)
        self._parts = tuple(parts)
        self._number = number
        self._search_path = search_path
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, timeout: float) -> None:
        """Starts the process and opens the parts there; see `Replica.start`."""
        name = self._placement.name
        if processes.Preparation.is_so:
            message = (
                f"placement {name!r}: the main module starts the flow where it is imported, and "
                "its replicas must import it; put what starts the flow under: "
                "if __name__ == '__main__':"
            )
            raise PlanError(message)
        job = _pickle(self._parts, name)
        label = f"modelflow/{name}/{self._number}"
        preparation = processes.preparation_of(label, self._search_path, job)
        with self._lock:
            if self._is_over:
                message = "it was ended before it had begun"
                raise ReplicaLostError(message)
            self._begin()
        channel = self._channels[0]
        try:
            channel.send((preparation, job), timeout)
            is_good, answer = channel.receive(timeout)
        except TimeoutError as error:
            message = f"not ready within {timeout:g} s ([placement.{name}] start_timeout_ms)"
            raise TimeoutError(message) from error
        except (EOFError, OSError) as error:
            raise ReplicaLostError(self._describe_end("before it was ready")) from error
        if not is_good:
            raise answer
        self._use(self._channels)

    def _begin(self) -> None:
        """Starts the process with its ends of all channels.

        Raises:
            OSError: it cannot be started, or too many files are open; nothing is left of it.
        """
        ours: list[Channel] = []
        theirs: list[int] = []
        try:
            for _ in range(self._channel_count):
                mine, ends = open_channel()
                ours.append(mine)
                theirs.extend(ends)
            self._process = processes.start_process(_ENTRY, theirs, self._search_path)
        except BaseException:
            for channel in ours:
                channel.close()
            raise
        finally:
            for fd in theirs:
                os.close(fd)
        self._channels = ours

    @property
    def _who(self) -> str:
        process = self._process
        assert process is not None  # it has started
        return f"process {process.pid}"

    def is_alive(self) -> bool:
        """Tells whether the process has not ended."""
        with self._lock:
            return not self._is_over and self._process is not None and self._process.poll() is None

    def close(self) -> None:
        """Has its units closed, and waits for its end."""
        self._leave(processes.END_TIMEOUT)
        self._end()

    def kill(self) -> None:
        """Ends the process at once."""
        with self._lock:
            self._ended.set()
            if self._process is not None and self._process.poll() is None:
                self._process.kill()

    def _end(self) -> None:
        with self._lock:
            self._ended.set()
        if self._process is not None:
            processes.see_end_of(self._process)
        self._close_channels()

    def _describe_end(self, when: str = "") -> str:
        process = self._process
        if process is None:
            return "its process was not there any more"
        processes.see_end_of(process)
        end = processes.end_of(process)
        return f"process {process.pid} has ended ({end}) {when}".rstrip()


def _pickle(parts: Sequence[Part], name: str) -> bytes:
    try:
        return pickle.dumps(tuple(parts))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        try:
            import cloudpickle  # takes what was made in a notebook, or inside a function
        except ImportError:
            message = (
                f"placement {name!r}: a flow unit that was given in code cannot be sent to another "
                f"process ({error}); define it in a module, not inside a function, put it into a "
                "folder of units, or install the package cloudpickle"
            )
            raise PlanError(message) from error
        pickled: bytes = cloudpickle.dumps(tuple(parts))
        return pickled
