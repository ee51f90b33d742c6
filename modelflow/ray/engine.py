"""Replicas that are actors of a Ray cluster."""

import contextlib
import hashlib
import threading
import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from modelflow.config.placement import PlacementConfig
from modelflow.errors import ModelflowError, StreamClosed, described
from modelflow.ray.actor import Origin, PartActor
from modelflow.ray.cluster import (
    NAMESPACE,
    Cluster,
    ClusterError,
    actor_options,
    first_line,
    needed_text,
    opened,
)
from modelflow.remote.engine import Engine
from modelflow.remote.message import Answers, Rows
from modelflow.remote.part import Part
from modelflow.remote.replica import (
    NotSendableError,
    PartEndedError,
    Replica,
    ReplicaLostError,
)

__all__ = ["RayEngine", "RayReplica"]

# Seconds in which a machine that a replica needs may still join the cluster.
_PATIENCE = 20.0
_STOP_TIMEOUT = 10.0
_ANSWER = 5.0


class RayEngine(Engine):
    """Runs parts in actors of a cluster that this process is connected to."""

    def __init__(self, cluster: Cluster, shared: str | None = None) -> None:
        """Begins without actors.

        Args:
            cluster: Where they run.
            shared: A name: all engines of the same one, in whatever process, use the same actors,
                so that the batches of all meet there; None: they are this engine's alone.
        """
        super().__init__()
        self._cluster = cluster
        self._is_shared = shared is not None
        self._name = shared or uuid.uuid4().hex[:12]

    def replica(self, placement: PlacementConfig, parts: Sequence[Part], number: int) -> Replica:
        """Makes an actor that runs ``parts``; see `Engine.replica`."""
        from ray import cloudpickle

        archive = _archive_of(parts)
        # What runs there is in the name: nobody finds the actors of another graph under it.
        said = cloudpickle.dumps((placement, tuple(parts))) + (archive or b"")
        digest = hashlib.sha256(said).hexdigest()[:12]
        name = f"{self._name}/{placement.name}/{digest}/{number}"
        return RayReplica(self._cluster, placement, parts, archive, name, is_shared=self._is_shared)


class RayReplica(Replica):
    """One actor."""

    def __init__(
        self,
        cluster: Cluster,
        placement: PlacementConfig,
        parts: Sequence[Part],
        archive: bytes | None,
        name: str,
        *,
        is_shared: bool,
    ) -> None:
        """Stores what is to run."""
        self._cluster = cluster
        self._placement = placement
        self._parts = tuple(parts)
        self._archive = archive
        self._name = name
        self._is_shared = is_shared
        self._is_ours = True
        self._actor: Any = None
        self._is_over = threading.Event()
        self._lock = threading.Lock()
        self._settled: threading.Event | None = None

    def start(self, timeout: float) -> None:
        """Has the cluster make the actor, and opens the parts there; see `Replica.start`.

        Raises:
            ClusterError: no machine could ever hold it, none has room in time, or the actor cannot
                run the parts; the message says which.
        """
        self._wait_for_a_machine(min(timeout, _PATIENCE))
        self._actor = self._found() if self._is_shared else self._made()
        ref = self._actor.open.remote(self._parts, self._archive)
        settled = threading.Event()
        ref.future().add_done_callback(lambda _: settled.set())
        with self._lock:
            self._settled = settled
            if self._is_over.is_set():
                settled.set()
        settled.wait(timeout)
        opened(ref, 0, lambda: self._not_ready(timeout))

    def _not_ready(self, timeout: float) -> str:
        if self._is_over.is_set():
            return "it was ended before it had begun"
        return (
            f"it needs {needed_text(self._placement)}, and was not ready within {timeout:g} s "
            f"([placement.{self._placement.name}] start_timeout_ms); free in the cluster: "
            f"{self._cluster.free_text() or 'nothing'}"
        )

    def _wait_for_a_machine(self, seconds: float) -> None:
        lacking = self._cluster.lacking(self._placement)
        while lacking and seconds > 0 and not self._is_over.wait(min(1.0, seconds)):
            seconds -= 1.0
            lacking = self._cluster.lacking(self._placement)
        if lacking:
            raise ClusterError(lacking)

    def _found(self) -> Any:
        """Returns the actor that bears the name, made if there is none."""
        import ray

        try:
            actor = ray.get_actor(self._name, namespace=NAMESPACE)
        except ValueError:
            try:
                return self._made()
            except ValueError:  # somebody has made it meanwhile
                actor = ray.get_actor(self._name, namespace=NAMESPACE)
        self._is_ours = False
        return actor

    def _made(self) -> Any:
        import ray

        nodes = ", ".join(node for part in self._parts for node in _nodes(part))
        options = actor_options(self._placement, self._name, self._placement.in_flight + 2)
        return ray.remote(PartActor).options(**options).remote(Origin.here(nodes))

    def call(self, rows: Rows, timeout: float) -> Answers:
        """Has a batch worked on; see `Replica.call`."""
        import ray
        from ray.exceptions import RayError, RaySystemError, RayTaskError

        key = uuid.uuid4().hex
        try:
            ref = self._actor.answer.remote(rows, key)
        except RayError as error:
            raise ReplicaLostError(self._lost(error)) from error
        except Exception as error:
            message = f"a row cannot be sent to another process: {described(error)}"
            raise NotSendableError(message) from error
        try:
            self._wait(ref, rows.part, key, timeout)
            answers: Answers = ray.get(ref, timeout=timeout)
        except RayTaskError as error:
            raise _raised(error.cause) from error
        except RaySystemError as error:  # it came, and is of a class that is not here, or worse
            message = f"an answer cannot be read here: {_last(error)}"
            raise NotSendableError(message) from error
        except RayError as error:
            raise ReplicaLostError(self._lost(error)) from error
        except ReplicaLostError:
            raise
        except Exception as error:
            message = f"an answer cannot be read here: {described(error)}"
            raise NotSendableError(message) from error
        return _own(answers)

    def _wait(self, ref: Any, part: str, key: str, timeout: float) -> None:
        """Waits for an answer as long as something moves there.

        Raises:
            ReplicaLostError: nothing has for so many seconds.
            RayError: the actor has ended.
        """
        import ray

        ahead = None
        while not ray.wait([ref], timeout=timeout)[0]:
            try:
                now = ray.get(self._actor.ahead.remote(part, key), timeout=_ANSWER)
            except ray.exceptions.GetTimeoutError:
                now = None
            if now is None or now == ahead:
                message = (
                    f"actor {self._name} has done no row for {timeout:g} s "
                    f"([placement.{self._placement.name}] timeout_ms)"
                )
                raise ReplicaLostError(message)
            ahead = now

    def _lost(self, error: Exception) -> str:
        return f"actor {self._name} has ended: {first_line(error)}"

    def is_alive(self) -> bool:
        """Tells whether it was not ended here; what has become of it there, a call will tell."""
        return not self._is_over.is_set()

    def close(self) -> None:
        """Has its units closed, and ends the actor, unless it is somebody else's."""
        import ray
        from ray.exceptions import RayError

        if self._actor is None or not self._is_ours:
            return
        if not self._is_over.is_set():
            with contextlib.suppress(RayError):  # it has ended, or hangs
                ray.get(self._actor.stop.remote(), timeout=_STOP_TIMEOUT)
        self.kill()

    def kill(self) -> None:
        """Ends the actor at once."""
        import ray

        with self._lock:
            self._is_over.set()
            if self._settled is not None:
                self._settled.set()
        if self._actor is not None and self._is_ours:
            ray.kill(self._actor)


def _archive_of(parts: Sequence[Part]) -> bytes | None:
    path = parts[0].config.archive
    return None if path is None else path.read_bytes()


def _own(answers: Answers) -> Answers:
    """Returns the answers with arrays of this process: those of the store would keep it full."""
    columns = {
        output: (list(map(_copied, data)), list(map(_copied, metas)))
        for output, (data, metas) in answers.columns.items()
    }
    return replace(answers, columns=columns)


def _copied(value: Any) -> Any:
    """Returns a value whose arrays are this process's, also those in lists and mappings."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if type(value) is dict:
        return {key: _copied(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(_copied, value))
    return value


def _raised(cause: BaseException) -> ModelflowError:
    """Returns what a call of an actor that raised means here."""
    if isinstance(cause, PartEndedError):
        return cause
    if isinstance(cause, StreamClosed):  # its flow cannot go on
        return ReplicaLostError(first_line(cause))
    return NotSendableError(f"a batch, or its answer, cannot be sent: {described(cause)}")


def _nodes(part: Part) -> list[str]:
    return [
        node.name for node in part.config.nodes if node.attributes.get("type") in (None, "flowunit")
    ]


def _last(error: BaseException) -> str:
    """Returns the last line of an error of Ray's that ends in a traceback."""
    return str(error).strip().splitlines()[-1]
