"""Predict requests over gRPC: ``PredictRequest`` to arrays, arrays to ``PredictResponse``."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from modelflow.wire.problem import refuse
from modelflow.wire.proto import TF_SERVING
from modelflow.wire.tf_serving.predict import Types
from modelflow.wire.tf_serving.tensor_proto import (
    MOST_ELEMENTS,
    array_of_proto,
    fill_proto,
    name_of,
    type_number,
)


def predict_arrays(
    message: Any, inputs: Types, *, most_elements: int = MOST_ELEMENTS
) -> dict[str, npt.NDArray[Any]]:
    """Returns an array for each input of the model.

    Args:
        message: The ``PredictRequest``.
        inputs: The element types of the model's inputs. None for an input of any type.
        most_elements: The most elements of an array.

    Raises:
        Problem: An input is missing, unknown or malformed, or has another type.
    """
    sent = {*message.inputs}  # a set, because the map's own keys are compared one by one
    if sent != inputs.keys():
        refuse(
            f"input size does not match signature: {len(sent)}!={len(inputs)} "
            f"len({_set(sent)}) != len({_set(inputs)}). Sent extra: {_set(sent - inputs.keys())}. "
            f"Missing but required: {_set(inputs.keys() - sent)}."
        )
    arrays: dict[str, npt.NDArray[Any]] = {}
    for name, dtype in inputs.items():
        where, tensor = f"input {name!r}", message.inputs[name]
        if dtype is not None and tensor.dtype != (number := type_number(dtype)):
            found, expected = name_of(tensor.dtype), name_of(number)
            refuse(f"{where}: dtype {found}; expected {expected}, as the signature says")
        arrays[name] = array_of_proto(tensor, where, most_elements=most_elements)
    return arrays


def list_wanted_outputs(output_filter: Iterable[str], outputs: Collection[str]) -> tuple[str, ...]:
    """Returns the requested outputs, or all outputs if the request names none.

    Raises:
        Problem: The request names an unknown output, or an output twice.
    """
    wanted: list[str] = []
    for name in output_filter:
        if name not in outputs:
            refuse(
                f"output tensor alias not found in signature: {name} Outputs expected to be in the "
                f"set {_set(outputs)}."
            )
        if name in wanted:
            refuse(f"duplicate output tensor alias: {name}")
        wanted.append(name)
    return tuple(wanted or outputs)


def predict_response(
    name: str,
    version: int,
    signature_name: str,
    outputs: Mapping[str, npt.NDArray[Any]],
    *,
    as_content: bool = False,
) -> Any:
    """Returns the ``PredictResponse`` of a model.

    Args:
        name: The model that answers.
        version: The version of the model.
        signature_name: The signature of the model.
        outputs: The outputs of the model.
        as_content: Whether tensors are sent as raw bytes instead of the fields of their types.

    Raises:
        Problem: TensorFlow has no such type.
    """
    message = TF_SERVING["tensorflow.serving.PredictResponse"]()
    message.model_spec.name = name
    message.model_spec.version.value = version
    message.model_spec.signature_name = signature_name
    for output, array in outputs.items():
        fill_proto(message.outputs[output], np.asarray(array), as_content=as_content)
    return message


def _set(names: Iterable[str]) -> str:
    return "{" + ",".join(sorted(names)) + "}"
