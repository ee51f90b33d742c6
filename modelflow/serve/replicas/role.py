"""What each of several processes that serve together is there for."""

from collections.abc import Mapping
from enum import StrEnum

__all__ = ["Role", "name_of"]

_MODELS = "the process of the models"


class Role(StrEnum):
    """What a process is there for."""

    REPLICA = "replica"
    """It takes connections, and has all models."""
    WORKER = "worker"
    """It takes connections, and asks who has the models."""
    MODELS = "models"
    """It has the models, for the workers."""
    ISOLATED = "isolated"
    """It has one model, for all that take connections."""

    @property
    def is_asked(self) -> bool:
        """Tells whether others ask it, and no client does."""
        return self in (Role.MODELS, Role.ISOLATED)


def name_of(role: Role, number: int, isolated: Mapping[int, str]) -> str:
    """Returns what messages call a process.

    Args:
        role: What it is there for.
        number: Which of its role it is, from 1.
        isolated: The models that have a process of their own, by its number.
    """
    if role is Role.ISOLATED:
        return f"the process of model {isolated[number]!r}"
    return _MODELS if role is Role.MODELS else f"{role} {number}"
