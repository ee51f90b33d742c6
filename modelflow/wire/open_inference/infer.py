"""A request to infer and its answer, the same over REST and gRPC."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from modelflow.wire.problem import refuse, shorten

Parameters = Mapping[str, Any]
"""By name: booleans, integers, floats or texts; over REST any JSON."""


@dataclass(frozen=True, slots=True)
class InferTensor:
    """A tensor of a request or an answer.

    Attributes:
        name: Its name.
        datatype: What the protocol calls its type.
        array: Its elements; one that came in binary is a read-only view on what was received.
        parameters: What was said of it.
    """

    name: str
    datatype: str
    array: npt.NDArray[Any]
    parameters: Parameters = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RequestedOutput:
    """An output that a request asks for.

    Attributes:
        name: Its name.
        is_binary: It is to be sent in binary; None: as the request says of all.
        classes: So many of the best classes are to be sent in its place; 0: itself.
        parameters: Everything that was said of it.
    """

    name: str
    is_binary: bool | None = None
    classes: int = 0
    parameters: Parameters = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, parameters: Parameters) -> "RequestedOutput":
        """Gives the output that was asked for with these parameters.

        Raises:
            Problem: a parameter is of another type.
        """
        where = f"output {shorten(name)}"
        is_binary = parameters.get("binary_data")
        if is_binary is not None and type(is_binary) is not bool:
            refuse(f"{where}: binary_data {shorten(is_binary)}; expected true or false")
        classes = parameters.get("classification", 0)
        if type(classes) is not int or classes < 0:
            refuse(f"{where}: classification {shorten(classes)}; expected a number of classes")
        return cls(name, is_binary, classes, parameters)


@dataclass(frozen=True, slots=True)
class InferRequest:
    """A request to infer.

    Attributes:
        inputs: The tensors, by name.
        outputs: Which outputs are asked for, by name; empty: all.
        id: What the client calls it; empty: nothing.
        parameters: What it says of itself: ``timeout``, ``priority``, ...
        model_name: The model (gRPC; over REST the path says it).
        model_version: The version (gRPC); empty: the server's choice.
    """

    inputs: Mapping[str, InferTensor]
    outputs: Mapping[str, RequestedOutput] = field(default_factory=dict)
    id: str = ""
    parameters: Parameters = field(default_factory=dict)
    model_name: str = ""
    model_version: str = ""

    def is_binary(self, output: str) -> bool:
        """Whether an output is to be sent in binary over REST."""
        asked = self.outputs.get(output)
        if asked is not None and asked.is_binary is not None:
            return asked.is_binary
        return bool(self.parameters.get("binary_data_output", False))


@dataclass(frozen=True, slots=True)
class InferAnswer:
    """The answer.

    Attributes:
        model_name: The model that answers.
        model_version: Its version.
        outputs: The tensors, in order.
        id: What the client called the request.
        parameters: What is said of the answer.
    """

    model_name: str
    model_version: str
    outputs: tuple[InferTensor, ...]
    id: str = ""
    parameters: Parameters = field(default_factory=dict)


def classify(
    scores: npt.NDArray[Any], classes: int, labels: Sequence[str], where: str
) -> npt.NDArray[Any]:
    """Returns the best classes of each item, the best first.

    Args:
        scores: (items, ...) of numbers; all behind axis 0 are the classes of one item.
        classes: How many to give; as many as there are, where there are fewer.
        labels: The classes' names, as far as they are known.
        where: What is classified, for messages.

    Returns:
        (items, classes) of bytes: ``SCORE:INDEX`` or ``SCORE:INDEX:LABEL``.

    Raises:
        Problem: it is no tensor of scores.
    """
    if scores.dtype.kind not in "iuf" or not scores.ndim:
        refuse(f"{where}: {scores.dtype.name} of {scores.ndim} axes; classes need rows of scores")
    width = scores[:1].size if len(scores) else 0
    rows = scores.reshape(len(scores), width)
    taken = min(classes, width)
    keys = np.where(np.isnan(rows), -np.inf, rows) if rows.dtype.kind == "f" else rows
    # From behind, and back: of two classes with one score the first then comes first.
    best = width - 1 - np.argsort(keys[:, ::-1], axis=1, kind="stable")[:, ::-1][:, :taken]
    answer = np.empty((len(scores), taken), np.object_)
    for row, indices in enumerate(best.tolist()):
        answer[row] = [_entry(rows[row, index], index, labels) for index in indices]
    return answer


def _entry(score: Any, index: int, labels: Sequence[str]) -> bytes:
    number = f"{score:f}" if isinstance(score, np.floating) else str(score)
    label = f":{labels[index]}" if index < len(labels) else ""
    return f"{number}:{index}{label}".encode()
