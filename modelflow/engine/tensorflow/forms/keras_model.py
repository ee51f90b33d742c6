"""Keras models: ``.keras`` and ``.h5`` files, whose ports are the names of inputs and outputs."""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from modelflow.engine.engine import LoadedModel, LoadRequest, check_ports, model_error
from modelflow.engine.model_file import looks_like
from modelflow.engine.tensorflow import settings
from modelflow.engine.tensorflow.library import load_tensorflow
from modelflow.engine.tensorflow.runners.function import (
    FunctionModel,
    freeze,
    is_assigning,
    list_operations,
)
from modelflow.engine.tensorflow.runners.placed_graph import tensor_spec


def load_keras_model(request: LoadRequest) -> LoadedModel:
    """Loads a Keras model for inference (``training=False``), without running code from the file.

    Raises:
        EngineError: The file is no Keras model, contains Python code, or lacks a port.
    """
    tf = load_tensorflow()
    path = request.path
    keras_model = _read(path, "/device:CPU:0")
    inputs, outputs = _name_ports(path, keras_model)
    chosen_inputs = _choose(path, "input", request.inputs, list(inputs.values()))
    chosen_outputs = _choose(path, "output", request.outputs, list(outputs.values()))
    if len(chosen_inputs) < len(inputs):
        absent = next(spec for name, spec in inputs.items() if name not in chosen_inputs)
        raise model_error(path, f"its input {absent} is fed by no port; declare an input for it")
    signature = [tf.TensorSpec(spec.shape, spec.dtype) for spec in inputs.values()]
    function = tf.function(_forward(keras_model)).get_concrete_function(*signature)
    frozen = freeze(
        request,
        function,
        [(name, list(inputs).index(name)) for name in chosen_inputs],
        [(name, list(outputs).index(name)) for name in chosen_outputs],
    )
    if frozen is not None:
        return frozen
    own = _read(path, settings.device_name(request.device))
    forward = tf.function(_forward(own), input_signature=signature)

    def call(tensors: Mapping[str, Any]) -> Mapping[str, Any]:
        values = forward(*[tensors[name] for name in inputs])
        return dict(zip(outputs, values, strict=True))

    model = FunctionModel(
        request,
        call,
        tuple(inputs[name] for name in chosen_inputs),
        tuple(outputs[name] for name in chosen_outputs),
    )
    model.is_stateful = is_assigning(list_operations(function.graph.as_graph_def()))
    return model


def _read(path: Path, device: str) -> Any:
    tf = load_tensorflow()
    try:
        with tf.device(device), warnings.catch_warnings():
            # Keras's variables do not know NumPy 2's copy argument yet.
            warnings.filterwarnings("ignore", "__array__ implementation", DeprecationWarning)
            return tf.keras.models.load_model(str(path), compile=False, safe_mode=True)
    except (OSError, ValueError, KeyError, TypeError, ImportError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise model_error(
            path,
            f"{looks_like(path)}; Keras {tf.keras.__version__} does not load it as a "
            f"model: {reason}",
        ) from error


def _name_ports(path: Path, model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the inputs and the outputs by name, in the flat order of the model's structures."""
    tree = load_tensorflow().keras.tree
    if not getattr(model, "inputs", None) or not getattr(model, "outputs", None):
        raise model_error(
            path,
            "a Keras model without fixed inputs; expected a functional or "
            "sequential one; export this one as a SavedModel",
        )
    flat = tree.flatten(_structure(model, "input"))
    inputs = {tensor.name: tensor_spec(path, tensor.name, tensor) for tensor in flat}
    named = zip(_output_names(model), tree.flatten(_structure(model, "output")), strict=True)
    return inputs, {name: tensor_spec(path, name, tensor) for name, tensor in named}


def _structure(model: Any, side: str) -> Any:
    """Returns the structure of a model's arguments (``input``) or results (``output``)."""
    # A sequential model has no `input` before its first call.
    if isinstance(model, load_tensorflow().keras.Sequential):
        return getattr(model, f"{side}s")[0]
    return getattr(model, side)


def _output_names(model: Any) -> list[str]:
    given = _structure(model, "output")
    if isinstance(given, dict):
        return sorted(given)
    names = getattr(model, "output_names", None) or [model.layers[-1].name]
    return [
        name if names.count(name) == 1 else f"{name}_{names[:place].count(name)}"
        for place, name in enumerate(names)
    ]


def _choose(path: Path, what: str, wanted: Sequence[str], known: Sequence[Any]) -> list[str]:
    check_ports(path, what, wanted, known)
    return list(wanted) or [spec.name for spec in known]


def _forward(model: Any) -> Any:
    tree = load_tensorflow().keras.tree

    def forward(*tensors: Any) -> list[Any]:
        packed = tree.pack_sequence_as(_structure(model, "input"), list(tensors))
        result: list[Any] = tree.flatten(model(packed, training=False))
        return result

    return forward
