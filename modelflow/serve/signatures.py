"""The ways in which a served model can be called, each with what makes its flow."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from modelflow.engine.load_group import LoadGroup
from modelflow.flow import Flow
from modelflow.wire.tf_serving.documents import DEFAULT_SIGNATURE, PREDICT_METHOD

__all__ = ["Further", "MakeFlow", "Signatures"]


class MakeFlow(Protocol):
    """Makes a flow, which does not run yet."""

    def __call__(self, group: LoadGroup | None = None, /) -> Flow:
        """Returns the flow; ``group`` is of the signatures that are loaded with it."""


@dataclass(frozen=True, slots=True)
class Further:
    """A signature that a model has beside the one that answers by default.

    Attributes:
        method: What it is for.
        open: Makes the flow of it.
    """

    method: str
    open: MakeFlow


@dataclass(frozen=True, slots=True)
class Signatures:
    """The ways in which a model can be called.

    Attributes:
        default: The name of the one that answers by default.
        method: What that is for.
        further: The others, by name.
        tensors: What the model's file calls the tensors of each signature, by port.
    """

    default: str = DEFAULT_SIGNATURE
    method: str = PREDICT_METHOD
    further: Mapping[str, Further] = field(default_factory=lambda: MappingProxyType({}))
    tensors: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: MappingProxyType({}))
