"""The cluster: its address, its machines, and the actors of modelflow on it."""

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
        """Gives address and what it has, as in ``10.0.0.2 (CPU=4, GPU=1, zone='a')``."""
        own = [f", {k}={v!r}" for k, v in self.labels.items() if not k.startswith("ray.io/")]
        return f"{self.address} ({_amounts_text(self.total)}{''.join(own)})"


@dataclass(frozen=True, slots=True)
class Actor:
    """A replica that runs on a cluster.

    Attributes:
        name: Its name there.
        label: The nodes that it runs; of a server where it answers.
        machine: The address of its machine.
        process: The number of its process.
        rows: How many rows each of its nodes has worked on; of a server none.
    """

    name: str
    label: str
    machine: str
    process: int
    rows: Mapping[str, int]

    def __str__(self) -> str:
        """Gives a line for people."""
        counts = ", ".join(f"{node}: {count}" for node, count in self.rows.items())
        rows = f"; rows: {counts}" if counts else ""
        return f"replica {self.name} ({self.machine}, process {self.process}): {self.label}{rows}"


class RemoteActor:
    """An actor, by its name."""

    def __init__(self, client: Client, name: str) -> None:
        """Of one that was made, or found."""
        self._client = client
        self.name = name

    def call(self, method: str, *given: Any, timeout: float | None = None) -> Any:
        """Calls a method of what it keeps.

        Raises:
            TimeoutError: there was no answer in time.
            ActorGoneError: it has ended.
            ClusterError: the method has raised; or the cluster cannot be reached.
        """
        return self._client.ask("call", self.name, method, _pickle(given), timeout=timeout)

    def is_placed(self) -> bool:
        """Tells whether it has a machine, as far as is known."""
        return bool(self._ask("is_placed", True))

    def try_call(self, method: str, *given: Any, timeout: float) -> Any:
        """Calls a method; returns None where it has ended, or does not answer in time."""
        with contextlib.suppress(ClusterError, TimeoutError):
            return self.call(method, *given, timeout=timeout)
        return None

    def send(self, path: Path, timeout: float) -> str:
        """Sends an archive to its machine, if that has none of the same content.

        Returns:
            Its digest.
        """
        digest = digest_of(path)
        self._client.ask("send", self.name, str(path), digest, timeout=timeout)
        return digest

    def end_of(self, timeout: float) -> str:
        """Returns what Ray knows of its end; "": nothing within so many seconds."""
        return str(self._ask("end_of", "", timeout))

    def kill(self) -> None:
        """Ends it at once, if it has not ended with its cluster."""
        self._ask("kill", None)

    def _ask(self, what: str, otherwise: Any, *given: Any) -> Any:
        """Returns what Ray says, or something else where nobody can be asked."""
        try:
            return self._client.ask(what, self.name, *given, timeout=_ANSWER)
        except (ClusterError, TimeoutError):
            return otherwise


class Cluster:
    """A cluster that a process of its own is connected to."""

    def __init__(self, client: Client) -> None:
        """Asks nothing."""
        self._client = client

    def machines(self, timeout: float = ASKED) -> list[Machine]:
        """Returns the machines that are up.

        Raises:
            TimeoutError: Nobody told it within so many seconds.
        """
        return [Machine(*one) for one in self._client.ask("machines", timeout=timeout)]

    def free_text(self) -> str:
        """Returns what of all machines is not taken, for people."""
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
            name: Its name.
            placement: What it takes of its machine.
            given: What is called to make what it keeps, and with what.
            calls: How many calls it answers at once.
            is_detached: Nobody owns it: it ends by itself.

        Raises:
            LookupError: there is one of the name.
            ClusterError: the cluster cannot be reached.
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
        """Returns the actor of a name; None: there is none."""
        return RemoteActor(self._client, name) if self._client.ask("find", name) else None

    def ask_actors(self) -> tuple[list[Actor], list[str]]:
        """Asks the replicas of modelflow, of whoever has begun them, what they do.

        Returns:
            Those that answer; and the names of those that do not: they start, wait for a machine
            that has room, or hang.
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
            except ClusterError:  # it ends
                continue
        return answering, silent

    def actors(self) -> list[Actor]:
        """Returns the replicas of modelflow that answer, of whoever has begun them."""
        return self.ask_actors()[0]

    def lacking(self, placement: PlacementConfig, timeout: float = ASKED) -> str:
        """Says why no machine could ever hold a replica of a placement; "": one could.

        Raises:
            TimeoutError: Nobody told it within so many seconds.
        """
        machines = self.machines(timeout)
        if any(machine.fits(placement) for machine in machines):
            return ""
        needed = describe_needs(placement)
        seen = "; ".join(map(str, machines)) or "none"
        return f"it needs {needed} on one machine, and none has that (machines: {seen})"


def versions() -> tuple[str, str]:
    """Returns those of Python (major and minor) and modelflow."""
    from modelflow import __version__

    return ".".join(map(str, sys.version_info[:2])), __version__


def _pickle(given: Any) -> bytes:
    from ray import cloudpickle

    found: bytes = cloudpickle.dumps(given)
    return found


def _options(placement: PlacementConfig, calls: int) -> dict[str, Any]:
    """Returns what Ray is told of an actor."""
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
    """Returns what a replica takes, as a text."""
    parts = [f"{name}={_amount(name, value)}" for name, value in placement.resources.items()]
    parts += [f"the label {name}={value!r}" for name, value in placement.labels.items()]
    return ", ".join(parts) or "nothing"


def _amounts_text(amounts: Mapping[str, float]) -> str:
    """Returns resources for people, without those that Ray has for itself."""
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
    """Returns where a cluster is; connects to nothing.

    Args:
        address: As `connected` takes it.

    Raises:
        ConfigError: it is no address of a cluster that runs, or there is none.
    """
    given = address or os.environ.get(ADDRESS)
    if not given:
        raise ConfigError(
            f"no cluster is named; give --address HOST:PORT, or set {ADDRESS} ('auto': the one "
            "that 'ray start --head' has begun on this machine)"
        )
    if given == "local":
        raise ConfigError(
            "--address local would begin a cluster; begin one with 'ray start --head'"
        )
    found = HOST_PORT.match(given)
    is_rays = found is None and "://" in given  # Ray alone understands it
    if given == AUTO or is_rays or (found is not None and int(found[2]) <= _MOST_PORT):
        return given
    raise ConfigError(
        f"the cluster's address: got {given!r}{did_you_mean(given, (AUTO,))}; expected HOST:PORT, "
        f"ray://HOST:PORT or {AUTO!r}"
    )


@contextlib.contextmanager
def connected(address: str | None = None) -> Iterator[Cluster]:
    """Connects this process to a cluster that runs; it is left at the end of the block.

    Args:
        address: ``host:6379``, ``ray://host:10001``, or ``auto`` for the one of this machine; None:
            what the environment says as ``RAY_ADDRESS``.

    Raises:
        ConfigError: neither says where it is: none is started in silence; or what it says is no
            address.
        ClusterError: it does not answer, or runs other versions.
        MissingDependencyError: Ray is not installed.
    """
    given = check_address(address)
    if find_spec("ray") is None:
        package = extra = "ray"
        raise MissingDependencyError(package, extra, "a Ray cluster")
    client = Client(given)
    try:
        client.ask("names")  # connects now: what is wrong is told here
        yield Cluster(client)
    finally:
        client.close()
