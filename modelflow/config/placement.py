"""The sections ``[placement.NAME]``: a kind of machine, its replicas, and limits of requests."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from modelflow.config.document import KeyReader
from modelflow.config.schema import PLACEMENT_KEYS
from modelflow.errors import ConfigError, Location
from modelflow.quantities import bytes_of

MOST_REPLICAS = 10_000
_RANGE = re.compile(r"\s*(\d{1,5})\s*(?:\.\.\s*(\d{1,5})\s*)?\Z")
# Lower-case name -> the resource name of Ray.
_OWN = {"cpu": "CPU", "gpu": "GPU", "memory": "memory"}


UNPLACED = "ray run"
"""The placement's name for a graph without placed nodes, after the command with its options."""


@dataclass(frozen=True, slots=True)
class PlacementConfig:
    """One kind of machine.

    Attributes:
        name: The name in ``placement=``.
        replicas: The minimum and the maximum number of replicas.
        resources: The resources of each replica: ``CPU``, ``GPU``, ``memory`` (bytes), or others of
            the cluster.
        labels: The labels that a replica's machine must have.
        strategy: ``spread`` over machines, or ``pack`` into few.
        in_flight: Batches in flight to one replica.
        timeout: Seconds without a finished row after which a replica counts as lost. With None a
            replica is lost only without a sign of life.
        start_timeout: Maximum seconds until a replica is ready.
        retries: How often a batch is sent again after the loss of its replica.
        location: The location in the graph file.
    """

    name: str
    replicas: tuple[int, int] = (1, 1)
    resources: Mapping[str, float] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    strategy: str = "spread"
    in_flight: int = 4
    timeout: float | None = None
    start_timeout: float = 300.0
    retries: int = 2
    location: Location = field(default_factory=lambda: Location("<code>"), compare=False)


def read_placements(given: Any, reader: KeyReader) -> dict[str, PlacementConfig]:
    """Returns the sections ``[placement.NAME]``.

    Args:
        given: The values of the sections, by name.
        reader: Collects the mistakes.
    """
    found = {}
    for name, table in reader.table(("placement",), given).items():
        path = ("placement", name)
        keys = reader.read(path, table, PLACEMENT_KEYS)
        found[name] = PlacementConfig(
            name,
            _replicas(path, keys["replicas"], reader),
            _resources(path, keys["resources"], reader),
            _labels(path, keys["labels"], reader),
            keys["strategy"],
            keys["in_flight"],
            None if keys["timeout_ms"] is None else keys["timeout_ms"] / 1e3,
            keys["start_timeout_ms"] / 1e3,
            keys["retries"],
            reader.at(*path),
        )
    return found


def replicas_of(given: str | int) -> tuple[int, int]:
    """Parses the minimum and the maximum number of replicas: ``2``, ``1..8``.

    Raises:
        ConfigError: The value has another form.
    """
    matched = _RANGE.match(str(given))
    if matched is not None:
        least = int(matched[1])
        most = int(matched[2] or least)
        if 1 <= least <= most <= MOST_REPLICAS:
            return least, most
    raise ConfigError(
        f"got {given!r}; expected a number from 1 to {MOST_REPLICAS}, or a minimum and a maximum: "
        "'1..8'"
    )


def _replicas(path: tuple[str, str], given: Any, reader: KeyReader) -> tuple[int, int]:
    try:
        return replicas_of(given)
    except ConfigError as error:
        _wrong(reader, path, "replicas", str(error))
        return 1, 1


def _resources(path: tuple[str, str], given: Any, reader: KeyReader) -> dict[str, float]:
    if not isinstance(given, Mapping):
        message = f"got {given!r:.60}; expected names with amounts: {{ CPU = 2, GPU = 1 }}"
        _wrong(reader, path, "resources", message)
        return {}
    found = {}
    for name, amount in given.items():
        is_size = name == "memory"
        value = bytes_of(amount) if is_size else _amount(amount)
        meant = _OWN.get(name.lower().rstrip("s"), name)
        if name != meant:
            message = f"got {name!r}; did you mean {meant!r}?"
            _wrong(reader, path, "resources", message)
        elif name == "GPU" and value is not None and value > 1 and value % 1:
            message = f"GPU: got {amount!r}; expected a whole number, or a part of a GPU: 0.5"
            _wrong(reader, path, "resources", message)
        elif value is None:
            expected = "a size such as '8GiB'" if is_size else "a number of at least 0"
            message = f"{name}: got {amount!r}; expected {expected}"
            _wrong(reader, path, "resources", message)
        else:
            found[name] = value
    return found


def _amount(given: Any) -> float | None:
    if isinstance(given, bool) or not isinstance(given, int | float | str):
        return None
    try:
        value = float(given)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _labels(path: tuple[str, str], given: Any, reader: KeyReader) -> dict[str, str]:
    if isinstance(given, Mapping) and all(isinstance(value, str) for value in given.values()):
        return dict(given)
    message = f"got {given!r:.60}; expected names with texts: {{ zone = 'a' }}"
    _wrong(reader, path, "labels", message)
    return {}


def _wrong(reader: KeyReader, path: tuple[str, str], key: str, message: str) -> None:
    reader.wrong((*path, key), f"[{'.'.join(path)}]: key {key!r}: {message}")
