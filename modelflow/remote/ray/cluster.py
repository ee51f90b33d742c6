"""A Ray cluster: its address, its machines, and the actors of modelflow on these machines."""

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from typing import Any

from modelflow.archive.received import digest_of
from modelflow.config.placement import PlacementConfig
from modelflow.errors import ConfigError, MissingDependencyError, did_you_mean
from modelflow.remote.ray.client import ASKED, AUTO, HOST_PORT, Client, ClusterError

_ANSWER = 5.0  # seconds


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine of a cluster.

    Attributes:
        address: The IP address of the machine.
        total: The resources: ``CPU``, ``GPU``, ``memory`` (bytes), and any that Ray was started
            with.
        labels: The labels of the machine.
    """

    address: str
    total: Mapping[str, float]
    labels: Mapping[str, str]

    def fits(self, placement: PlacementConfig) -> bool:
        """Returns whether an otherwise idle machine could hold a replica."""
        return all(
            self.total.get(name, 0.0) >= amount for name, amount in placement.resources.items()
        ) and all(self.labels.get(name) == value for name, value in placement.labels.items())

    def __str__(self) -> str:
        """Returns address, resources and labels, as in ``10.0.0.2 (CPU=4, GPU=1, zone='a')``."""
        own = [f", {k}={v!r}" for k, v in self.labels.items() if not k.startswith("ray.io/")]
        return f"{self.address} ({_amounts_text(self.total)}{''.join(own)})"


@dataclass(frozen=True, slots=True)
class Actor:
    """A replica or a server that runs on a cluster.

    Attributes:
        name: The name of the actor.
        label: The nodes of the replica, or the address of the server.
        machine: The address of the machine.
        process: The process number.
        rows: Node -> number of processed rows; empty for a server.
    """

    name: str
    label: str
    machine: str
    process: int
    rows: Mapping[str, int]

    def __str__(self) -> str:
        """Returns a line of text for messages."""
        counts = ", ".join(f"{node}: {count}" for node, count in self.rows.items())
        rows = f"; rows: {counts}" if counts else ""
        return f"replica {self.name} ({self.machine}, process {self.process}): {self.label}{rows}"


class RemoteActor:
    """A handle of an actor, by the actor's name."""

    def __init__(self, client: Client, name: str) -> None:
        """Makes the handle of an existing actor."""
        self._client = client
        self.name = name

    def call(self, method: str, *given: Any, timeout: float | None = None) -> Any:
        """Calls a method of the real actor.

        Raises:
            TimeoutError: No answer came in time.
            ActorGoneError: The actor has ended.
            ClusterError: The method has raised, or the cluster cannot be reached.
        """
        return self._client.ask("call", self.name, method, _pickle(given), timeout=timeout)

    def is_placed(self) -> bool:
        """Returns whether the actor has a machine, or True if unknown."""
        return bool(self._ask("is_placed", True))

    def try_call(self, method: str, *given: Any, timeout: float) -> Any:
        """Calls a method; returns None if the actor has ended or does not answer in time."""
        with contextlib.suppress(ClusterError, TimeoutError):
            return self.call(method, *given, timeout=timeout)
        return None

    def send(self, path: Path, timeout: float) -> str:
        """Sends an archive to the actor's machine, unless the machine has the same content.

        Returns:
            The digest of the archive.
        """
        digest = digest_of(path)
        self._client.ask("send", self.name, str(path), digest, timeout=timeout)
        return digest

    def end_of(self, timeout: float) -> str:
        """Returns Ray's reason of the actor's end, or "" if unknown after the time-out."""
        return str(self._ask("end_of", "", timeout))

    def kill(self) -> None:
        """Kills the actor, if the cluster still exists."""
        self._ask("kill", None)

    def _ask(self, what: str, otherwise: Any, *given: Any) -> Any:
        """Returns the answer of Ray, or `otherwise` if the cluster cannot be reached."""
        try:
            return self._client.ask(what, self.name, *given, timeout=_ANSWER)
        except (ClusterError, TimeoutError):
            return otherwise


class Cluster:
    """A Ray cluster, reached through a client process."""

    def __init__(self, client: Client) -> None:
        """Stores the client; sends no request."""
        self._client = client

    def machines(self, timeout: float = ASKED) -> list[Machine]:
        """Returns the running machines.

        Raises:
            TimeoutError: No answer came within `timeout` seconds.
        """
        return [Machine(*one) for one in self._client.ask("machines", timeout=timeout)]

    def free_text(self) -> str:
        """Returns the free resources of all machines together, for messages."""
        try:
            return _amounts_text(self._client.ask("free", timeout=_ANSWER)) or "nothing"
        except (ClusterError, TimeoutError) as error:
            return f"unknown ({error})"

    def make(
        self,
        name: str,
        placement: PlacementConfig,
        given: tuple[Any, ...],
        *,
        calls: int,
        is_detached: bool = False,
    ) -> RemoteActor:
        """Makes an actor.

        Args:
            name: The name of the actor.
            placement: The resources that the actor needs on its machine.
            given: A callable and its arguments to make the real actor.
            calls: Number of calls that the actor answers at once.
            is_detached: Whether the actor has no owner, and ends itself.

        Raises:
            LookupError: The name is in use.
            ClusterError: The cluster cannot be reached.
        """
        options = _options(placement, calls)
        if is_detached:
            options["lifetime"] = "detached"
        paths = [*map(os.path.abspath, sys.path)]
        make, *arguments = given
        greeted = (versions(), paths, _pickle((make, arguments)))
        self._client.ask("make", name, options, greeted)
        return RemoteActor(self._client, name)

    def find(self, name: str) -> RemoteActor | None:
        """Returns the actor with this name, or None."""
        return RemoteActor(self._client, name) if self._client.ask("find", name) else None

    def ask_actors(self) -> tuple[list[Actor], list[str]]:
        """Requests the state of all actors of modelflow, made by any process.

        Returns:
            The actors that answer, and the names of the others. The others start, wait for a
            machine with room, or hang.
        """
        answering, silent = [], []
        nothing, names = _pickle(()), self._client.ask("names")
        asked = [(name, self._client.begin("call", name, "figures", nothing)) for name in names]
        due = monotonic() + _ANSWER
        for name, found in asked:
            try:
                answering.append(Actor(name, **found.result(max(0.0, due - monotonic()))))
            except FutureTimeoutError:
                silent.append(name)
            except ClusterError:  # the actor is ending
                continue
        return answering, silent

    def actors(self) -> list[Actor]:
        """Returns all actors of modelflow that answer, made by any process."""
        return self.ask_actors()[0]

    def lacking(self, placement: PlacementConfig, timeout: float = ASKED) -> str:
        """Returns why no machine could ever hold a replica of a placement, or "" if one could.

        Raises:
            TimeoutError: No answer came within `timeout` seconds.
        """
        machines = self.machines(timeout)
        if any(machine.fits(placement) for machine in machines):
            return ""
        needed = describe_needs(placement)
        seen = "; ".join(map(str, machines)) or "none"
        return f"it needs {needed} on one machine, and none has that (machines: {seen})"


def versions() -> tuple[str, str]:
    """Returns the versions of Python (major and minor) and modelflow."""
    from modelflow import __version__

    return ".".join(map(str, sys.version_info[:2])), __version__


def _pickle(given: Any) -> bytes:
    from ray import cloudpickle

    found: bytes = cloudpickle.dumps(given)
    return found


def _options(placement: PlacementConfig, calls: int) -> dict[str, Any]:
    """Returns the options of an actor for Ray."""
    resources = dict(placement.resources)
    options = {
        "num_cpus": resources.pop("CPU", 0),
        "num_gpus": resources.pop("GPU", 0),
        "memory": int(resources.pop("memory", 0)) or None,
        "resources": resources or None,
        "label_selector": dict(placement.labels) or None,
        "scheduling_strategy": "SPREAD" if placement.strategy == "spread" else "DEFAULT",
        "max_concurrency": calls,
    }
    return {key: value for key, value in options.items() if value is not None}


def describe_needs(placement: PlacementConfig) -> str:
    """Returns the resources and labels that a replica needs, for messages."""
    parts = [f"{name}={_amount(name, value)}" for name, value in placement.resources.items()]
    parts += [f"the label {name}={value!r}" for name, value in placement.labels.items()]
    return ", ".join(parts) or "nothing"


def _amounts_text(amounts: Mapping[str, float]) -> str:
    """Returns resources as text, without Ray's internal resources."""
    return ", ".join(
        f"{name}={_amount(name, amounts[name])}"
        for name in sorted(amounts)
        if not name.startswith(("node:", "object_store"))
    )


def _amount(name: str, value: float) -> str:
    return f"{value / 1024**3:.1f}GiB" if name == "memory" else f"{value:g}"


ADDRESS = "RAY_ADDRESS"
_MOST_PORT = 65535


def check_address(address: str | None = None) -> str:
    """Checks and returns the address of a cluster; does not connect.

    Args:
        address: The address, as for `connect`.

    Raises:
        ConfigError: The address has no valid form, or no address is given.
    """
    given = address or os.environ.get(ADDRESS)
    if not given:
        raise ConfigError(
            f"no cluster is named; give --address HOST:PORT, or set {ADDRESS} ('auto': the "
            "cluster that 'ray start --head' has started on this machine)"
        )
    if given == "local":
        raise ConfigError(
            "--address local would begin a cluster; begin one with 'ray start --head'"
        )
    found = HOST_PORT.match(given)
    is_rays = found is None and "://" in given  # another scheme, which Ray checks
    if given == AUTO or is_rays or (found is not None and int(found[2]) <= _MOST_PORT):
        return given
    raise ConfigError(
        f"the cluster's address: got {given!r}{did_you_mean(given, (AUTO,))}; expected HOST:PORT, "
        f"ray://HOST:PORT or {AUTO!r}"
    )


@contextlib.contextmanager
def connect(address: str | None = None) -> Iterator[Cluster]:
    """Connects this process to a running cluster, until the end of the ``with`` block.

    Args:
        address: ``host:6379``, ``ray://host:10001``, or ``auto`` for the cluster of this machine.
            None for the value of the environment variable ``RAY_ADDRESS``.

    Raises:
        ConfigError: No address is given, or the address has no valid form. modelflow never starts
            a cluster on its own.
        ClusterError: The cluster does not answer, or runs other versions.
        MissingDependencyError: Ray is not installed.
    """
    given = check_address(address)
    if find_spec("ray") is None:
        package = extra = "ray"
        raise MissingDependencyError(package, extra, "a Ray cluster")
    client = Client(given)
    try:
        client.ask("names")  # connects now, to raise errors here
        yield Cluster(client)
    finally:
        client.close()
