"""The cluster: what its machines have, who of modelflow is there, what Ray is told and says."""

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from modelflow.config.placement import PlacementConfig
from modelflow.errors import ModelflowError

__all__ = [
    "NAMESPACE",
    "Actor",
    "ActorGoneError",
    "Cluster",
    "ClusterError",
    "Machine",
    "actor_options",
    "end_of",
    "first_line",
    "needed_text",
    "opened",
]

NAMESPACE = "modelflow"
"""The namespace of modelflow's actors."""

_ANSWER = 5.0  # seconds


class ClusterError(ModelflowError):
    """A cluster that cannot be reached, or cannot hold what it is to run."""


class ActorGoneError(ClusterError):
    """An actor has ended, or its machine has, before it was ready."""


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine of a cluster.

    Attributes:
        address: Its IP address.
        total: What it has: ``CPU``, ``GPU``, ``memory`` (bytes), and whatever it was started with.
        labels: What it is labelled with.
    """

    address: str
    total: Mapping[str, float]
    labels: Mapping[str, str]

    def fits(self, placement: PlacementConfig) -> bool:
        """Tells whether it could hold a replica if nothing else ran there."""
        return all(
            self.total.get(name, 0.0) >= amount for name, amount in placement.resources.items()
        ) and all(self.labels.get(name) == value for name, value in placement.labels.items())

    def __str__(self) -> str:
        """Gives address and what it has, as in ``10.0.0.2 (CPU=4, GPU=1)``."""
        return f"{self.address} ({_amounts_text(self.total)})"


@dataclass(frozen=True, slots=True)
class Actor:
    """A replica that runs on a cluster.

    Attributes:
        name: Its name there.
        label: The nodes that it runs; of a server where it answers.
        process: The number of its process.
        rows: How many rows each of its nodes has worked on; of a server none.
    """

    name: str
    label: str
    process: int
    rows: Mapping[str, int]

    def __str__(self) -> str:
        """Gives a line for people."""
        counts = ", ".join(f"{node}: {count}" for node, count in self.rows.items())
        rows = f"; rows: {counts}" if counts else ""
        return f"replica {self.name} (process {self.process}): {self.label}{rows}"


class Cluster:
    """A cluster that this process is connected to."""

    def machines(self) -> list[Machine]:
        """Returns the machines that are up."""
        import ray

        return [
            Machine(node["NodeManagerAddress"], node["Resources"], node.get("Labels", {}))
            for node in ray.nodes()
            if node["Alive"]
        ]

    def free_text(self) -> str:
        """Returns what of all machines is not taken, for people; "": nothing."""
        import ray

        return _amounts_text(ray.available_resources())

    def actors(self) -> list[Actor]:
        """Returns the replicas of modelflow that answer, of whoever has begun them."""
        return self.asked_actors()[0]

    def asked_actors(self) -> tuple[list[Actor], list[str]]:
        """Asks the replicas of modelflow, of whoever has begun them, what they do.

        Returns:
            Those that answer; and the names of those that do not: they start, wait for a machine
            that has room, or hang.
        """
        import ray
        from ray.exceptions import RayError
        from ray.util import list_named_actors

        asked: dict[Any, str] = {}
        for actor in list_named_actors(all_namespaces=True):
            if actor["namespace"] == NAMESPACE:
                with contextlib.suppress(ValueError):  # it has ended meanwhile
                    found = ray.get_actor(actor["name"], namespace=NAMESPACE)
                    asked[found.figures.remote()] = actor["name"]
        if not asked:
            return [], []
        ready, late = ray.wait(list(asked), num_returns=len(asked), timeout=_ANSWER)
        answering = []
        for ref in ready:
            with contextlib.suppress(RayError):  # it ends
                answering.append(Actor(asked[ref], **ray.get(ref)))
        return answering, [asked[ref] for ref in late]

    def lacking(self, placement: PlacementConfig) -> str:
        """Says why no machine could ever hold a replica of a placement; "": one could."""
        machines = self.machines()
        if any(machine.fits(placement) for machine in machines):
            return ""
        needed = needed_text(placement)
        seen = "; ".join(map(str, machines)) or "none"
        return f"it needs {needed} on one machine, and none has that (machines: {seen})"


def actor_options(placement: PlacementConfig, name: str, calls: int) -> dict[str, Any]:
    """Returns what Ray is told of an actor.

    Args:
        placement: What it takes of its machine.
        name: Its name.
        calls: How many calls it answers at once.
    """
    resources = dict(placement.resources)
    options = {
        "num_cpus": resources.pop("CPU", 0),
        "num_gpus": resources.pop("GPU", 0),
        "memory": int(resources.pop("memory", 0)) or None,
        "resources": resources or None,
        "label_selector": dict(placement.labels) or None,
        "scheduling_strategy": "SPREAD" if placement.strategy == "spread" else "DEFAULT",
        "max_concurrency": calls,
        "name": name,
        "namespace": NAMESPACE,
    }
    return {key: value for key, value in options.items() if value is not None}


def needed_text(placement: PlacementConfig) -> str:
    """Returns what a replica takes, as a text."""
    parts = [f"{name}={_amount(name, value)}" for name, value in placement.resources.items()]
    parts += [f"the label {name}={value!r}" for name, value in placement.labels.items()]
    return ", ".join(parts) or "nothing"


def opened(ref: Any, timeout: float, late: Callable[[], str]) -> Any:
    """Waits for what opens an actor.

    Args:
        ref: The call.
        timeout: The longest wait in seconds.
        late: Says why it may not be there in time.

    Returns:
        What the call has returned.

    Raises:
        ClusterError: it was not there in time, or it raised.
        ActorGoneError: the actor has ended.
    """
    import ray
    from ray.exceptions import GetTimeoutError, RayActorError, RaySystemError, RayTaskError

    try:
        return ray.get(ref, timeout=timeout)
    except GetTimeoutError as error:
        raise ClusterError(late()) from error
    except RayTaskError as error:
        cause = error.cause  # Ray's own has a traceback in its text
        said = first_line(cause) if isinstance(cause, RaySystemError) else str(cause)
        raise ClusterError(said) from error
    except RayActorError as error:
        message = f"its actor has ended: {_why_it_died(error)}"
        raise ActorGoneError(message) from error


def end_of(actor: Any, timeout: float) -> str:
    """Returns what Ray knows of an actor's end; "": nothing yet.

    Args:
        actor: The actor.
        timeout: Seconds in which Ray may hear of it.
    """
    import ray
    from ray.exceptions import RayActorError, RayError

    try:
        ray.get(actor.__ray_ready__.remote(), timeout=timeout)
    except RayActorError as error:
        return _why_it_died(error)
    except RayError:  # it hangs, or nobody can be asked
        return ""
    return ""


def _why_it_died(error: Exception) -> str:
    """Returns the reason in an error of Ray's, without what the actor was and what it may mean."""
    _, begin, reason = str(error).partition("The actor is dead because ")
    reason = " ".join(reason.partition("Some common causes")[0].split())
    return reason if begin else first_line(error)


def first_line(error: BaseException) -> str:
    """Returns the first line of an error of Ray's, which says much more."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


def _amounts_text(amounts: Mapping[str, float]) -> str:
    """Returns resources for people, without those that Ray has for itself."""
    return ", ".join(
        f"{name}={_amount(name, amounts[name])}"
        for name in sorted(amounts)
        if not name.startswith(("node:", "object_store"))
    )


def _amount(name: str, value: float) -> str:
    return f"{value / 1024**3:.1f}GiB" if name == "memory" else f"{value:g}"
