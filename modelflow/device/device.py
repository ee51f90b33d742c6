"""The value ``cuda:1``."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Device:
    """A device: its kind (``cpu``, ``cuda``, or a plug-in's) and its number counted from 0."""

    kind: str
    index: int = 0

    def __str__(self) -> str:
        return f"{self.kind}:{self.index}"


CPU = Device("cpu", 0)
