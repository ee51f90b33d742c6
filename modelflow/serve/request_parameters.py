"""The parameters of Open Inference requests: what is done, and what asks for nothing.

Whatever else a client asks for is refused with its name: an answer that leaves it out looks like
one that obeys it.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from modelflow.wire.json_array import json_type
from modelflow.wire.open_inference.infer import InferRequest, Parameters
from modelflow.wire.problem import Problem, shown

__all__ = ["check_extras", "check_parameters"]

_SEQUENCE = "requests of a sequence are not kept together, each is answered by itself"

# Obeyed where they are read. A stream says of each answer whether it is the last one, asked or not.
_DONE_OF_REQUEST = frozenset(
    {"timeout", "binary_data_output", "triton_enable_empty_final_response"}
)
_DONE_OF_INPUT = frozenset({"binary_data_size"})
_DONE_OF_OUTPUT = frozenset({"binary_data", "classification"})

# Name -> the values that ask for nothing, and why no other is taken.
_NOT_DONE: Mapping[str, tuple[tuple[Any, ...], str]] = MappingProxyType(
    {
        "priority": ((0,), "requests are answered in the order in which they come"),
        "sequence_id": ((0, ""), _SEQUENCE),
        "sequence_start": ((False,), _SEQUENCE),
        "sequence_end": ((False,), _SEQUENCE),
    }
)


def check_parameters(request: InferRequest) -> None:
    """Checks that each parameter of a request, its inputs and its outputs is one that is obeyed.

    Raises:
        Problem: one is not; it names it.
    """
    if request.parameters:
        _check(request.parameters, _DONE_OF_REQUEST, "request")
    for name, tensor in request.inputs.items():
        if tensor.parameters:
            _check(tensor.parameters, _DONE_OF_INPUT, f"input {shown(name)}")
    for name, output in request.outputs.items():
        if output.parameters:
            _check(output.parameters, _DONE_OF_OUTPUT, f"output {shown(name)}")


def check_extras(extras: Parameters) -> None:
    """Checks what a ``generate`` request says beside the model's inputs.

    As in Triton these are parameters of the model's own, texts, numbers and booleans, such as
    ``temperature``; those of the protocol that are not done are refused here, too.

    Raises:
        Problem: one is refused, or is no text, number or boolean; it names it.
    """
    for name, value in extras.items():
        if name in _NOT_DONE:
            _check_default(name, value, "request")
        elif name.startswith("triton_"):
            message = f"request: parameter {shown(name)} is not supported; leave it out"
            raise Problem(message)
        elif not isinstance(value, bool | int | float | str):
            message = (
                f"request: {shown(name)} is no input, and as a parameter {json_type(value)}; "
                "expected a text, a number, or a boolean"
            )
            raise Problem(message)


def _check(parameters: Parameters, done: frozenset[str], where: str) -> None:
    for name, value in parameters.items():
        if name in done:
            continue
        if name in _NOT_DONE:
            _check_default(name, value, where)
            continue
        known = ", ".join(sorted(done))
        message = (
            f"{where}: parameter {shown(name)} is not supported; expected {known}, or none; "
            "leave it out"
        )
        raise Problem(message)


def _check_default(name: str, value: Any, where: str) -> None:
    defaults, reason = _NOT_DONE[name]
    if isinstance(value, bool | int | str) and value in defaults:
        return
    message = (
        f"{where}: parameter {name!r}: got {shown(value)}; {reason}; "
        f"expected {' or '.join(map(repr, defaults))}; leave it out"
    )
    raise Problem(message)
