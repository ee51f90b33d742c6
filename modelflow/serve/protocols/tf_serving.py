"""The parts of TensorFlow Serving's protocol that REST and gRPC share."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from modelflow.graph.graph_port import GraphPort, tensor_text
from modelflow.serve.options import ServeOptions
from modelflow.serve.repository.models import Models
from modelflow.serve.requests.model import Inference, Model, Terms
from modelflow.serve.requests.rows import as_tensor, describe_tensor
from modelflow.wire.problem import Code, refuse, shorten
from modelflow.wire.tensor import TensorSpec
from modelflow.wire.tf_serving.documents import SignatureInfo, VersionStatus
from modelflow.wire.tf_serving.examples import Example, serialize


def tensors_of(outputs: Mapping[str, Any]) -> dict[str, npt.NDArray[Any]]:
    """Returns the value of each output as an array."""
    return {name: as_tensor(value) for name, value in outputs.items()}


def signatures_of(model: Model) -> Mapping[str, SignatureInfo]:
    """Returns the signatures of a model, by name."""
    found = {}
    for one in model.all_signatures():
        inputs, outputs = _tensors(one.signature.inputs), _tensors(one.signature.outputs)
        found[one.signature_name] = SignatureInfo(inputs, outputs, one.method, one.tensor_names)
    return MappingProxyType(found)


def statuses_of(
    models: Models, name: str, version: str = "", label: str = ""
) -> list[VersionStatus]:
    """Returns the states of the versions of a model, or of the named version only.

    Raises:
        Problem: The model or the version does not exist.
    """
    return models.statuses(name, version, label)


def _tensors(ports: tuple[GraphPort, ...]) -> dict[str, TensorSpec | None]:
    return {port.name: describe_tensor(port) for port in ports}


def send_examples(
    model: Model,
    examples: Sequence[Example],
    done: Callable[[Inference], None],
    terms: Terms,
) -> Inference:
    """Sends examples to a signature.

    The method name of the signature does not matter, because TensorFlow 2 only writes predict
    signatures.

    Args:
        model: The model with the signature.
        examples: The examples, one item each.
        done: Called on this thread with the finished inference.
        terms: The deadline and the context of the request.

    Raises:
        Problem: The signature takes no examples, the examples exceed a limit, or the model has
            too many requests.
    """
    inputs = model.signature.inputs
    if len(inputs) != 1:
        refuse(f"Expected one input Tensor; signature {model.signature_name!r} has {len(inputs)}")
    tensor = inputs[0].tensor
    if tensor is not None and tensor.dtype != object:
        refuse(
            f"Expected a signature that takes serialized tf.Example messages; input "
            f"{inputs[0].name!r} of {model.signature_name!r} is {tensor_text(tensor)}"
        )
    array = np.empty(len(examples), np.object_)
    array[:] = _serialize(examples, model.options)
    return model.infer({inputs[0].name: array}, done, terms)


def _serialize(examples: Sequence[Example], options: ServeOptions) -> list[bytes]:
    """Returns each example with the shared context as bytes, and checks the limits.

    The bytes are counted here because each example repeats the context. A short request may
    therefore become very long.
    """
    sizes: Counter[str] = Counter()
    found, length = [], 0
    for example in examples:
        for name, values in example.items():
            sizes[name] += values.size
            options.check_elements(sizes[name], f"feature {shorten(name)}")
        found.append(serialize(example))
        length += len(found[-1])
        options.check_expanded(length)
    return found


def classes_of(
    call: Inference,
) -> tuple[npt.NDArray[Any] | None, npt.NDArray[Any] | None]:
    """Returns the labels and the scores, each of shape (examples, classes).

    Labels or scores are None if the model has no such output.

    Raises:
        Problem: The request failed, or the outputs are no classes.
    """
    outputs = tensors_of(call.outputs())
    labels, scores = outputs.get("classes"), outputs.get("scores")
    if labels is None and scores is None:
        refuse(
            "Expected classification signature outputs to contain classes or scores",
            Code.FAILED_PRECONDITION,
        )
    shapes = {array.shape for array in (labels, scores) if array is not None}
    if len(shapes) != 1 or len(next(iter(shapes))) != 2:
        refuse(
            f"Expected Tensor shape: [batch_size num_classes] but got {sorted(shapes)}",
            Code.FAILED_PRECONDITION,
        )
    return labels, scores


def values_of_regression(call: Inference) -> npt.NDArray[Any]:
    """Returns the values of a regression, one value per example.

    Raises:
        Problem: The request failed, or the output has not one value per example.
    """
    outputs = tensors_of(call.outputs())
    if set(outputs) != {"outputs"}:
        refuse(
            f"Expected one output Tensor 'outputs'; found {sorted(outputs)}",
            Code.FAILED_PRECONDITION,
        )
    array = outputs["outputs"]
    if array.size != call.rows or array.ndim not in (1, 2):
        shape = list(array.shape)
        refuse(
            f"Expected Tensor shape: [batch_size 1] or [batch_size]; got {shape}",
            Code.FAILED_PRECONDITION,
        )
    return array.reshape(-1)
