"""Which versions of a model are served, of those that are there."""

from collections.abc import Collection
from dataclasses import dataclass

from modelflow.errors import ConfigError

__all__ = ["LATEST", "VersionPolicy", "read_policy"]


@dataclass(frozen=True, slots=True)
class VersionPolicy:
    """Chooses versions; as ``servable_version_policy`` of TensorFlow Serving.

    Attributes:
        latest: So many of the newest; 0: all.
        specific: These instead, whether they are there or not.
    """

    latest: int = 1
    specific: tuple[int, ...] = ()

    def chosen(self, there: Collection[int]) -> list[int]:
        """Returns the versions to serve, the oldest first; of ``specific`` also what is missing."""
        if self.specific:
            return sorted(set(self.specific))
        return sorted(there)[-self.latest :] if self.latest else sorted(there)


LATEST = VersionPolicy()
"""The newest version alone."""


def read_policy(text: str) -> VersionPolicy:
    """Reads ``latest``, ``all``, or numbers: ``3`` or ``1,2``.

    Raises:
        ConfigError: it is none of these.
    """
    if text == "latest":
        return LATEST
    if text == "all":
        return VersionPolicy(latest=0)
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) for part in parts):
        message = f"versions: got {text!r}; expected latest, all, or numbers as in 1,2"
        raise ConfigError(message)
    return VersionPolicy(specific=tuple(map(int, parts)))
