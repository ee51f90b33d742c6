"""How a cluster is reached: its address, and the connection of this process to it."""

import contextlib
import os
from collections.abc import Iterator
from importlib.util import find_spec

from modelflow.errors import ConfigError, MissingDependencyError, did_you_mean
from modelflow.ray.client import AUTO, HOST_PORT, Client
from modelflow.ray.cluster import Cluster

__all__ = ["checked_address", "connected"]

ADDRESS = "RAY_ADDRESS"
_MOST_PORT = 65535


def checked_address(address: str | None = None) -> str:
    """Returns where a cluster is; connects to nothing.

    Args:
        address: As `connected` takes it.

    Raises:
        ConfigError: it is no address of a cluster that runs, or there is none.
    """
    given = address or os.environ.get(ADDRESS)
    if not given:
        message = (
            f"no cluster is named; give --address HOST:PORT, or set {ADDRESS} ('auto': the one "
            "that 'ray start --head' has begun on this machine)"
        )
        raise ConfigError(message)
    if given == "local":
        message = "--address local would begin a cluster; begin one with 'ray start --head'"
        raise ConfigError(message)
    found = HOST_PORT.match(given)
    is_rays = found is None and "://" in given  # Ray alone understands it
    if given == AUTO or is_rays or (found is not None and int(found[2]) <= _MOST_PORT):
        return given
    message = (
        f"the cluster's address: got {given!r}{did_you_mean(given, (AUTO,))}; expected HOST:PORT, "
        f"ray://HOST:PORT or {AUTO!r}"
    )
    raise ConfigError(message)


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
    given = checked_address(address)
    if find_spec("ray") is None:
        package = extra = "ray"
        raise MissingDependencyError(package, extra, "a Ray cluster")
    client = Client(given)
    try:
        client.ask("names")  # connects now: what is wrong is told here
        yield Cluster(client)
    finally:
        client.close()
