"""An engine with replicas that are processes of this machine."""

import pickle
import sys
from collections.abc import Sequence

from modelflow.config.placement import PlacementConfig
from modelflow.errors import PlanError, ReplicaLostError
from modelflow.ipc import process as processes
from modelflow.remote.channel_replica import ChannelReplica
from modelflow.remote.engine import PlacementEngine
from modelflow.remote.part import Part
from modelflow.remote.pool import Pool
from modelflow.remote.replica import ENDED_EARLY, Replica

_ENTRY = "modelflow.remote.replica_process:main"


class ProcessEngine(PlacementEngine):
    """An engine that runs parts in processes of this machine.

    Use it for units in Python that need their own processors, and for units that may crash. You can
    also try a placement with it before you run it on a cluster.
    """

    _search_path: Sequence[str] = ()

    def pool(self, placement: PlacementConfig, parts: Sequence[Part]) -> Pool:
        """Returns the replicas of a placement; see `PlacementEngine.pool`."""
        # Copied now, because an import in another thread may change the list for a moment.
        self._search_path = tuple(sys.path)
        return super().pool(placement, parts)

    def replica(self, placement: PlacementConfig, parts: Sequence[Part], number: int) -> Replica:
        """Makes a process that runs ``parts``; see `PlacementEngine.replica`."""
        return ProcessReplica(placement, parts, number, self._search_path)


class ProcessReplica(ChannelReplica):
    """A replica in a process of this machine, with a channel for each batch in flight."""

    def __init__(
        self,
        placement: PlacementConfig,
        parts: Sequence[Part],
        number: int,
        search_path: Sequence[str],
    ) -> None:
        """Stores the parts; starts no process."""
        super().__init__(placement)
        self._parts = tuple(parts)
        self._number = number
        self._search_path = search_path
        self._process: processes.ChildProcess | None = None

    def start(self, timeout: float) -> None:
        """Starts the process and opens the parts in the process; see `Replica.start`."""
        name = self._placement.name
        job = _pickle(self._parts, name)
        label = f"modelflow/{name}/{self._number}"
        who = f"placement {name!r}"
        preparation = processes.preparation_of(label, self._search_path, job, who)
        with self._lock:
            if self._is_over:
                raise ReplicaLostError(ENDED_EARLY)
            count = self._channel_count
            self._process = processes.ChildProcess(_ENTRY, self._search_path, count)
        channel = self._process.channels[0]
        try:
            channel.send((preparation, job), timeout)
            is_good, answer = channel.receive(timeout)
        except TimeoutError as error:
            raise TimeoutError(
                f"not ready within {timeout:g} s ([placement.{name}] start_timeout_ms)"
            ) from error
        except (EOFError, OSError) as error:
            raise ReplicaLostError(self._describe_end("before it was ready")) from error
        if not is_good:
            raise answer
        self._use(self._process.channels)

    @property
    def _who(self) -> str:
        process = self._process
        assert process is not None  # `start` was called
        return f"process {process.pid}"

    def is_alive(self) -> bool:
        """Returns whether the process has not ended."""
        with self._lock:
            return not self._is_over and self._process is not None and self._process.is_alive

    def close(self) -> None:
        """Closes the units and waits for the end of the process."""
        self._leave(processes.END_TIMEOUT)
        with self._lock:
            self._ended.set()
        if self._process is not None:
            self._process.wait()
            self._reporting.close()
            self._process.close()

    def kill(self) -> None:
        """Kills the process."""
        with self._lock:
            self._ended.set()
            if self._process is not None:
                self._process.kill()

    def _describe_end(self, when: str = "") -> str:
        process = self._process
        if process is None:
            return "its process was not there any more"
        return f"process {process.pid} has ended ({process.wait()}) {when}".rstrip()


def _pickle(parts: Sequence[Part], name: str) -> bytes:
    try:
        return pickle.dumps(tuple(parts))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        try:
            import cloudpickle  # pickles units from a notebook, or from inside a function
        except ImportError:
            raise PlanError(
                f"placement {name!r}: a flow unit that was given in code cannot be sent to another "
                f"process ({error}). Define it in a module, not inside a function. Or put it into "
                "a folder of units, or install the package cloudpickle"
            ) from error
        pickled: bytes = cloudpickle.dumps(tuple(parts))
        return pickled
