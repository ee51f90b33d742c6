"""Infer requests and answers, the same over REST and gRPC."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from modelflow.wire.problem import refuse, shorten

Parameters = Mapping[str, Any]
"""Parameters by name: booleans, integers, floats or texts. Over REST any JSON value."""


IN_REGION = "shared_memory_region"
"""The parameter of a tensor whose bytes are in shared memory."""

ReadRegion = Callable[[Parameters, str], bytes]
"""Returns the bytes of an input in shared memory, from its parameters and its name in messages."""


def refuse_region(_: Parameters, where: str) -> bytes:
    """Refuses an input in shared memory.

    Raises:
        Problem: Always.
    """
    refuse(f"{where}: shared memory is not used here; serve with --allow-shared-memory")


@dataclass(frozen=True, slots=True)
class InferTensor:
    """A tensor of a request or an answer.

    Attributes:
        name: The name of the tensor.
        datatype: The protocol's name of the type.
        array: The elements. A tensor received in binary is a read-only view on the received bytes.
        parameters: The parameters of the tensor.
    """

    name: str
    datatype: str
    array: npt.NDArray[Any]
    parameters: Parameters = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RequestedOutput:
    """An output that a request asks for.

    Attributes:
        name: The name of the output.
        is_binary: Whether to send the output in binary. None if the request's parameters decide.
        classes: The number of best classes to send instead of the output. 0 for the output itself.
        parameters: All parameters of the output.
    """

    name: str
    is_binary: bool | None = None
    classes: int = 0
    parameters: Parameters = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, parameters: Parameters) -> "RequestedOutput":
        """Returns the requested output for a name and its parameters.

        Raises:
            Problem: A parameter has another type.
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
        outputs: The requested outputs, by name. Empty for all outputs.
        id: The client's name for the request, or an empty text.
        parameters: The request's own parameters: ``timeout``, ``priority``, ...
        model_name: The model (gRPC). Over REST the path names it.
        model_version: The version (gRPC). Empty if the server chooses.
    """

    inputs: Mapping[str, InferTensor]
    outputs: Mapping[str, RequestedOutput] = field(default_factory=dict)
    id: str = ""
    parameters: Parameters = field(default_factory=dict)
    model_name: str = ""
    model_version: str = ""

    def is_binary(self, output: str) -> bool:
        """Returns whether an output is sent in binary over REST."""
        asked = self.outputs.get(output)
        if asked is not None and asked.is_binary is not None:
            return asked.is_binary
        return bool(self.parameters.get("binary_data_output", False))


@dataclass(frozen=True, slots=True)
class InferAnswer:
    """The answer to a request.

    Attributes:
        model_name: The model that answers.
        model_version: The version of the model.
        outputs: The tensors, in order.
        id: The client's name for the request.
        parameters: The parameters of the answer.
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
        scores: Numbers, (items, ...). All axes after axis 0 are the classes of an item.
        classes: The number of classes to return, limited by the number of classes in ``scores``.
        labels: The classes' names, as far as they are known.
        where: The name of the tensor, for messages.

    Returns:
        Bytes, (items, classes): ``SCORE:INDEX`` or ``SCORE:INDEX:LABEL``.

    Raises:
        Problem: The array is no tensor of scores.
    """
    if scores.dtype.kind not in "iuf" or not scores.ndim:
        refuse(f"{where}: {scores.dtype.name} of {scores.ndim} axes; classes need rows of scores")
    width = scores[:1].size if len(scores) else 0
    rows = scores.reshape(len(scores), width)
    taken = min(classes, width)
    keys = np.where(np.isnan(rows), -np.inf, rows) if rows.dtype.kind == "f" else rows
    # Sorted in reverse order and reversed again: of two equal scores, the first class comes first.
    best = width - 1 - np.argsort(keys[:, ::-1], axis=1, kind="stable")[:, ::-1][:, :taken]
    answer = np.empty((len(scores), taken), np.object_)
    for row, indices in enumerate(best.tolist()):
        answer[row] = [_entry(rows[row, index], index, labels) for index in indices]
    return answer


def _entry(score: Any, index: int, labels: Sequence[str]) -> bytes:
    number = f"{score:f}" if isinstance(score, np.floating) else str(score)
    label = f":{labels[index]}" if index < len(labels) else ""
    return f"{number}:{index}{label}".encode()
