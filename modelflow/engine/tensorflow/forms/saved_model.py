"""SavedModels, of TensorFlow 1 and 2: folders whose ports are the keys of a signature."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelflow.engine.engine import LoadedModel, LoadRequest, unknown_port
from modelflow.engine.file_form import looks_like
from modelflow.engine.tensorflow.forms.message import read_message
from modelflow.engine.tensorflow.library import load_tensorflow
from modelflow.engine.tensorflow.runners.function import (
    freeze,
    is_assigning,
    list_operations,
    refuse_xla,
)
from modelflow.engine.tensorflow.runners.graph import graph_model
from modelflow.engine.tensorflow.runners.placed_graph import PlacedGraph, tensor_spec
from modelflow.engine.tensorflow.runners.session import SessionModel
from modelflow.errors import EngineError, did_you_mean
from modelflow.wire.tensor import TensorSpec

__all__ = ["Signature", "load_saved_model", "read_methods", "read_signature"]

_DEFAULT = "serving_default"


@dataclass(frozen=True)
class Signature:
    """One signature of a SavedModel.

    Attributes:
        path: The SavedModel's folder.
        key: Its name.
        inputs, outputs: Key -> the tensor's description, with the key as its name.
        tensors: Key -> the name of the tensor in the graph, inputs and outputs together.
        tags: The tags of the graph that it belongs to.
        is_version_1: Written by TensorFlow 1: the graph's tensors can be used as ports.
    """

    path: Path
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
        path,
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
        known = signature.tensors
        return _load_session(
            request,
            signature,
            [(name, known[name] if name in signature.inputs else name) for name in inputs],
            [(name, known[name] if name in signature.outputs else name) for name in outputs],
            device,
        )
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
    model = None
    if not signature.is_version_1:
        loaded = _load(request.path, signature)
        # The flat order of a signature's function is that of its sorted keys.
        input_places, output_places = sorted(signature.inputs), sorted(signature.outputs)
        model = freeze(
            request,
            loaded.signatures[signature.key],
            [(port, input_places.index(key)) for port, key in inputs.items()],
            [(port, output_places.index(key)) for port, key in outputs.items()],
            device,
            has_free_shapes=True,  # TensorFlow Serving checks names and types, no shapes
        )
    if model is None:
        tensors = signature.tensors
        model = _load_session(
            request,
            signature,
            [(port, tensors[key]) for port, key in inputs.items()],
            [(port, tensors[key]) for port, key in outputs.items()],
            device,
        )
    return model


def _load_session(
    request: LoadRequest,
    signature: Signature,
    inputs: Sequence[tuple[str, str]],
    outputs: Sequence[tuple[str, str]],
    device: str,
) -> LoadedModel:
    """Loads a graph as TensorFlow Serving does, into a session with its variables and tables.

    Args:
        request: Path, device and options.
        signature: Whose graph it is.
        inputs: Pairs of port and tensor.
        outputs: The same for the outputs.
        device: TensorFlow's name of the device.
    """
    path, tf = request.path, load_tensorflow()
    graph = tf.Graph()
    session = tf.compat.v1.Session(
        graph=graph, config=tf.compat.v1.ConfigProto(allow_soft_placement=True)
    )
    model: LoadedModel | None = None
    try:
        with graph.as_default(), tf.device(device):
            tf.compat.v1.saved_model.loader.load(session, list(signature.tags), str(path))
        _require_tensors(signature, graph, "input", inputs)
        _require_tensors(signature, graph, "output", outputs)
        placed = PlacedGraph(path, graph, inputs, outputs, device)
        names = [fetch.op.name for fetch in placed.fetches]
        reached = tf.compat.v1.graph_util.extract_sub_graph(graph.as_graph_def(), names)
        is_stateful = is_assigning(reached)
        has_tables = any("Table" in operation for operation in list_operations(reached))
        if signature.is_version_1 and not (is_stateful or has_tables):
            constant = tf.compat.v1.graph_util.convert_variables_to_constants(
                session, reached, names
            )
            return graph_model(request, constant, inputs, outputs, device, has_free_shapes=True)
        refuse_xla(request)
        model = SessionModel(placed, session)
        model.accept_other_shapes(placed, is_constant=False)
        model.is_stateful = is_stateful
    except (OSError, ValueError, KeyError, tf.errors.OpError) as error:
        raise _make_load_error(path, error) from error
    finally:
        if model is None:
            session.close()
    return model


def _require_tensors(
    signature: Signature, graph: Any, what: str, ports: Sequence[tuple[str, str]]
) -> None:
    known = signature.inputs if what == "input" else signature.outputs
    for port, tensor in ports:
        try:
            graph.get_tensor_by_name(tensor if ":" in tensor else f"{tensor}:0")
        except (KeyError, ValueError) as error:
            message = unknown_port(signature.path, what, port, list(known.values()))
            raise EngineError(message) from error


def _load(path: Path, signature: Signature) -> Any:
    tf = load_tensorflow()
    try:
        with tf.device("/device:CPU:0"):
            return tf.saved_model.load(str(path), tags=list(signature.tags))
    except (OSError, ValueError, KeyError, tf.errors.OpError) as error:
        raise _make_load_error(path, error) from error


def _make_load_error(path: Path, error: Any) -> EngineError:
    reason = str(getattr(error, "message", error)).splitlines()[0]
    return EngineError(
        f"model {path}: the SavedModel does not load, it may be incomplete: {reason}"
    )


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
