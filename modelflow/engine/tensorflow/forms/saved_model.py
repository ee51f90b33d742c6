"""SavedModels, of TensorFlow 1 and 2: folders whose ports are the keys of a signature."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelflow.engine.engine import LoadedModel, LoadRequest, unknown_port
from modelflow.engine.file_form import looks_like
from modelflow.engine.tensorflow.forms.message import read_message
from modelflow.engine.tensorflow.library import load_tensorflow
from modelflow.engine.tensorflow.runners.function import FunctionModel, can_freeze, freeze
from modelflow.engine.tensorflow.runners.placed_graph import tensor_spec
from modelflow.errors import EngineError, did_you_mean
from modelflow.wire.tensor import TensorSpec

__all__ = ["Signature", "load_saved_model", "read_methods", "read_signature"]

_DEFAULT = "serving_default"


@dataclass(frozen=True)
class Signature:
    """One signature of a SavedModel.

    Attributes:
        key: Its name.
        inputs, outputs: Key -> the tensor's description, with the key as its name.
        tensors: Key -> the name of the tensor in the graph, inputs and outputs together.
        tags: The tags of the graph that it belongs to.
        is_version_1: Written by TensorFlow 1: the graph's tensors can be used as ports.
    """

    key: str
    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]
    tensors: Mapping[str, str]
    tags: tuple[str, ...]
    is_version_1: bool


def read_methods(path: Path) -> dict[str, str]:
    """Returns the names of a SavedModel's signatures, with the method that each is for.

    Raises:
        EngineError: no SavedModel.
    """
    found = _serving_graph(path).signature_def
    return {key: found[key].method_name for key in sorted(found) if not key.startswith("__")}


def read_signature(path: Path, wanted: str) -> Signature:
    """Reads the description of a SavedModel, without its weights.

    Args:
        path: The folder.
        wanted: The signature's name; empty: ``serving_default``, else the only one.

    Raises:
        EngineError: no SavedModel, or no such signature.
    """
    meta = _serving_graph(path)
    keys = [key for key in meta.signature_def if not key.startswith("__")]
    key = wanted or (_DEFAULT if _DEFAULT in keys or len(keys) != 1 else keys[0])
    if key not in keys:
        listed = ", ".join(sorted(keys)) or "none"
        what = f"no signature {key!r}{did_you_mean(key, keys)}" if wanted else "several signatures"
        if not keys:
            what = "no signature"
        message = f"model {path}: {what}; its signatures are: {listed}; set signature to one"
        raise EngineError(message)
    definition = meta.signature_def[key]
    return Signature(
        key,
        _described(path, definition.inputs),
        _described(path, definition.outputs),
        {k: t.name for part in (definition.inputs, definition.outputs) for k, t in part.items()},
        tuple(meta.meta_info_def.tags),
        not meta.object_graph_def.nodes,
    )


def load_saved_model(request: LoadRequest, device: str) -> LoadedModel:
    """Loads a SavedModel. Ports are keys of the signature, or names of its tensors.

    Raises:
        EngineError: no SavedModel, no such signature or port.
    """
    path = request.path
    signature = read_signature(path, request.options.signature)
    inputs = request.inputs or tuple(signature.inputs)
    outputs = request.outputs or tuple(signature.outputs)
    input_keys = [_key(name, signature.inputs, signature.tensors) for name in inputs]
    output_keys = [_key(name, signature.outputs, signature.tensors) for name in outputs]
    is_tensor_used = None in (*input_keys, *output_keys)
    if is_tensor_used and signature.is_version_1:
        return _load_tensors(request, signature, device)
    if is_tensor_used:
        _refuse_unknown(path, signature, zip(inputs, input_keys, strict=True), "input")
        _refuse_unknown(path, signature, zip(outputs, output_keys, strict=True), "output")
    _require_all(path, signature.inputs, input_keys)
    return _load_keys(
        request,
        signature,
        {name: str(key) for name, key in zip(inputs, input_keys, strict=True)},
        {name: str(key) for name, key in zip(outputs, output_keys, strict=True)},
        device,
    )


def _load_keys(
    request: LoadRequest,
    signature: Signature,
    inputs: Mapping[str, str],
    outputs: Mapping[str, str],
    device: str,
) -> LoadedModel:
    """Loads the signature's function; the mappings give the key of each port."""
    path = request.path
    loaded = _load(path, signature, "/device:CPU:0")
    function = loaded.signatures[signature.key]
    if can_freeze(function):
        # The flat order of a signature's function is that of its sorted keys.
        input_places, output_places = sorted(signature.inputs), sorted(signature.outputs)
        return freeze(
            request,
            function,
            [(port, input_places.index(key)) for port, key in inputs.items()],
            [(port, output_places.index(key)) for port, key in outputs.items()],
            device,
        )
    loaded = _load(path, signature, device)

    def call(tensors: Mapping[str, Any]) -> Mapping[str, Any]:
        given = {inputs[port]: tensor for port, tensor in tensors.items()}
        values = loaded.signatures[signature.key](**given)
        return {port: values[key] for port, key in outputs.items()}

    return FunctionModel(
        request,
        call,
        tuple(_renamed(signature.inputs[key], port) for port, key in inputs.items()),
        tuple(_renamed(signature.outputs[key], port) for port, key in outputs.items()),
        device,
    )


def _load_tensors(request: LoadRequest, signature: Signature, device: str) -> LoadedModel:
    """Loads the part of a TensorFlow 1 graph between tensors that need not be in the signature."""
    path = request.path
    loaded = _load(path, signature, "/device:CPU:0")
    ports = {
        "input": request.inputs or tuple(signature.inputs),
        "output": request.outputs or tuple(signature.outputs),
    }
    tensors: dict[str, list[Any]] = {"input": [], "output": []}
    for what, names in ports.items():
        known = signature.inputs if what == "input" else signature.outputs
        for name in names:
            tensor = signature.tensors[name] if name in known else name
            try:
                tensor = loaded.graph.get_tensor_by_name(tensor if ":" in tensor else f"{tensor}:0")
            except (KeyError, ValueError) as error:
                message = unknown_port(path, what, name, list(known.values()))
                raise EngineError(message) from error
            tensors[what].append(tensor)
    function = loaded.prune(tensors["input"], tensors["output"])
    return freeze(
        request,
        function,
        [(port, place) for place, port in enumerate(ports["input"])],
        [(port, place) for place, port in enumerate(ports["output"])],
        device,
    )


def _load(path: Path, signature: Signature, device: str) -> Any:
    tf = load_tensorflow()
    try:
        with tf.device(device):
            return tf.saved_model.load(str(path), tags=list(signature.tags))
    except (OSError, ValueError, KeyError, tf.errors.OpError) as error:
        reason = str(getattr(error, "message", error)).splitlines()[0]
        message = f"model {path}: the SavedModel does not load, it may be incomplete: {reason}"
        raise EngineError(message) from error


def _serving_graph(path: Path) -> Any:
    load_tensorflow()
    from tensorflow.core.protobuf import saved_model_pb2

    file = path / "saved_model.pb"
    if not file.is_file():
        message = f"model {path}: expected a SavedModel, which is a folder with saved_model.pb"
        raise EngineError(message)
    parsed = saved_model_pb2.SavedModel()
    read_message(file, parsed, "the description of a SavedModel")
    graphs = [g for g in parsed.meta_graphs if "serve" in g.meta_info_def.tags]
    if not graphs and len(parsed.meta_graphs) == 1:
        graphs = list(parsed.meta_graphs)
    if not graphs:
        tags = [", ".join(g.meta_info_def.tags) for g in parsed.meta_graphs]
        message = (
            f"model {file}: {looks_like(file) if not tags else f'graphs tagged {tags}'}; "
            "expected a SavedModel with a graph tagged 'serve'"
        )
        raise EngineError(message)
    return graphs[0]


def _described(path: Path, tensors: Mapping[str, Any]) -> dict[str, TensorSpec]:
    tf = load_tensorflow()
    return {
        key: tensor_spec(
            path,
            key,
            tf.TensorSpec(
                tf.TensorShape(tensors[key].tensor_shape), tf.as_dtype(tensors[key].dtype)
            ),
        )
        for key in sorted(tensors)
    }


def _key(name: str, known: Mapping[str, TensorSpec], tensors: Mapping[str, str]) -> str | None:
    if name in known:
        return name
    full = name if ":" in name else f"{name}:0"
    return next((key for key in known if tensors[key] == full), None)


def _refuse_unknown(
    path: Path, signature: Signature, found: Iterable[tuple[str, str | None]], what: str
) -> None:
    known = signature.inputs if what == "input" else signature.outputs
    for name, key in found:
        if key is None:
            raise EngineError(unknown_port(path, what, name, list(known.values())))


def _require_all(path: Path, known: Mapping[str, TensorSpec], given: list[str | None]) -> None:
    absent = [str(known[key]) for key in known if key not in given]
    if absent:
        message = (
            f"model {path}: its input {absent[0]} is fed by no port; declare an input for each: "
            f"{', '.join(map(str, known.values()))}"
        )
        raise EngineError(message)


def _renamed(tensor: TensorSpec, name: str) -> TensorSpec:
    return TensorSpec(name, tensor.dtype, tensor.shape)
