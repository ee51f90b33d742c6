"""Replicas that are processes of this machine."""

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
    """Runs parts in processes of this machine: for units in Python that need processors of their
    own, for units that may crash, and to try out what is to run on a cluster.
    """

    _search_path: Sequence[str] = ()

    def pool(self, placement: PlacementConfig, parts: Sequence[Part]) -> Pool:
        """Returns the processes of a placement; see `PlacementEngine.pool`."""
        # Now: a library that another thread imports may change it for a moment.
        self._search_path = tuple(sys.path)
        return super().pool(placement, parts)

    def replica(self, placement: PlacementConfig, parts: Sequence[Part], number: int) -> Replica:
        """Makes a process that runs ``parts``; see `PlacementEngine.replica`."""
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
        self._process: processes.ChildProcess | None = None

    def start(self, timeout: float) -> None:
        """Starts the process and opens the parts there; see `Replica.start`."""
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
        assert process is not None  # it has started
        return f"process {process.pid}"

    def is_alive(self) -> bool:
        """Tells whether the process has not ended."""
        with self._lock:
            return not self._is_over and self._process is not None and self._process.is_alive

    def close(self) -> None:
        """Has its units closed, and waits for its end."""
        self._leave(processes.END_TIMEOUT)
        with self._lock:
            self._ended.set()
        if self._process is not None:
            self._process.wait()
            self._reporting.close()
            self._process.close()

    def kill(self) -> None:
        """Ends the process at once."""
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
            import cloudpickle  # takes what was made in a notebook, or inside a function
        except ImportError:
            raise PlanError(
                f"placement {name!r}: a flow unit that was given in code cannot be sent to another "
                f"process ({error}); define it in a module, not inside a function, put it into a "
                "folder of units, or install the package cloudpickle"
            ) from error
        pickled: bytes = cloudpickle.dumps(tuple(parts))
        return pickled
