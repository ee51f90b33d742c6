"""SavedModels of TensorFlow 1 and 2: folders whose ports are the keys of a signature."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from modelflow.engine.engine import (
    LoadedModel,
    LoadGroup,
    LoadRequest,
    model_error,
    require_fed,
    unknown_port,
)
from modelflow.engine.tensorflow import settings
from modelflow.engine.tensorflow.forms.reached import find_reached, is_assigned
from modelflow.engine.tensorflow.forms.signature import Signature, read_signature
from modelflow.engine.tensorflow.library import load_tensorflow
from modelflow.engine.tensorflow.runners.function import freeze, is_assigning, refuse_xla
from modelflow.engine.tensorflow.runners.graph import graph_model
from modelflow.engine.tensorflow.runners.placed_graph import PlacedGraph
from modelflow.engine.tensorflow.runners.session import SessionModel, find_batched, make_plain
from modelflow.errors import EngineError

# Variables from before resource variables: their readers get the variable's own memory.
_REFERENCES = ("Variable", "VariableV2")


def load_saved_model(request: LoadRequest) -> LoadedModel:
    """Loads a SavedModel. Ports are keys of the signature, or names of its tensors.

    Raises:
        EngineError: The folder is no SavedModel, or lacks a signature or port.
    """
    path = request.path
    signature = read_signature(path, request.options.signature)
    inputs = request.inputs or tuple(signature.inputs)
    outputs = request.outputs or tuple(signature.outputs)
    input_keys = [_key(name, signature.input_tensors) for name in inputs]
    output_keys = [_key(name, signature.output_tensors) for name in outputs]
    is_tensor_used = None in (*input_keys, *output_keys)
    if is_tensor_used and signature.is_version_1:
        return _load_session(
            request,
            signature,
            [(name, signature.input_tensors.get(name, name)) for name in inputs],
            [(name, signature.output_tensors.get(name, name)) for name in outputs],
        )
    for what, names, keys, known in (
        ("input", inputs, input_keys, signature.inputs),
        ("output", outputs, output_keys, signature.outputs),
    ):
        for name, key in zip(names, keys, strict=True):
            if key is None:
                raise unknown_port(path, what, name, list(known.values()))
    require_fed(path, input_keys, list(signature.inputs.values()))
    return _load_keys(
        request,
        signature,
        {name: str(key) for name, key in zip(inputs, input_keys, strict=True)},
        {name: str(key) for name, key in zip(outputs, output_keys, strict=True)},
    )


def _load_keys(
    request: LoadRequest,
    signature: Signature,
    inputs: Mapping[str, str],
    outputs: Mapping[str, str],
) -> LoadedModel:
    """Loads the signature's function. The mappings give the key of each port."""
    model = None
    if not (signature.is_version_1 or _is_assigned_beside(request, signature)):
        loaded = _load(request.path, signature)
        # A signature's function takes and returns its tensors in the order of the sorted keys.
        input_places, output_places = sorted(signature.inputs), sorted(signature.outputs)
        model = freeze(
            request,
            loaded.signatures[signature.key],
            [(port, input_places.index(key)) for port, key in inputs.items()],
            [(port, output_places.index(key)) for port, key in outputs.items()],
            has_free_shapes=True,  # TensorFlow Serving checks names and types, no shapes
        )
    if model is None:
        model = _load_session(
            request,
            signature,
            [(port, signature.input_tensors[key]) for port, key in inputs.items()],
            [(port, signature.output_tensors[key]) for port, key in outputs.items()],
        )
    return model


def _load_session(
    request: LoadRequest,
    signature: Signature,
    inputs: Sequence[tuple[str, str]],
    outputs: Sequence[tuple[str, str]],
) -> LoadedModel:
    """Loads a graph as TensorFlow Serving does, into a session with its variables and tables.

    The signatures of one `LoadRequest.group` share the session. The last signature to close ends
    it.

    Args:
        request: Path, device and options.
        signature: The signature that the graph belongs to.
        inputs: Pairs of port and tensor.
        outputs: The same for the outputs.
    """
    path, tf, group = request.path, load_tensorflow(), request.group or LoadGroup()
    device = settings.device_name(request.device)
    key = (path, signature.tags, device)
    model: LoadedModel | None = None
    try:
        session = group.acquire(key, partial(_open_session, path, signature.tags, device))
    except (OSError, ValueError, KeyError, tf.errors.OpError) as error:
        raise _make_load_error(path, error) from error

    def release() -> None:
        if group.release(key):
            session.close()

    graph = session.graph
    try:
        _require_tensors(signature, graph, "input", inputs)
        _require_tensors(signature, graph, "output", outputs)
        placed = PlacedGraph(path, graph, inputs, outputs, device)
        names = [fetch.op.name for fetch in placed.fetches]
        graph_def = graph.as_graph_def()
        reached = find_reached(graph_def, names).operations
        is_stateful = is_assigning(reached)
        is_constant = not (is_stateful or any("Table" in operation for operation in reached))
        if signature.is_version_1 and is_constant and not _is_assigned_beside(request, signature):
            constant = tf.compat.v1.graph_util.convert_variables_to_constants(
                session, graph_def, names
            )
            return graph_model(request, constant, inputs, outputs, has_free_shapes=True)
        refuse_xla(request)
        model = SessionModel(placed, session, release)
        plain = make_plain(placed)
        model.accept_other_shapes(placed, plain, is_constant=False)
        # TensorFlow 1 assigns such variables in place. TensorFlow itself copies today's variables
        # into the results.
        model.is_copying = not reached.isdisjoint(_REFERENCES)
        if is_stateful:
            model.is_stateful = True
            model.accept_scalars()
            model.outputs = tuple(
                replace(spec, is_batched=is_batched)
                for spec, is_batched in zip(model.outputs, find_batched(placed, plain), strict=True)
            )
    except (OSError, ValueError, KeyError, tf.errors.OpError) as error:
        raise _make_load_error(path, error) from error
    finally:
        if model is None:
            release()
    return model


def _open_session(path: Path, tags: Sequence[str], device: str) -> Any:
    tf = load_tensorflow()
    graph = tf.Graph()
    session = tf.compat.v1.Session(
        graph=graph, config=tf.compat.v1.ConfigProto(allow_soft_placement=True)
    )
    try:
        with graph.as_default(), tf.device(device):
            tf.compat.v1.saved_model.loader.load(session, list(tags), str(path))
    except BaseException:
        session.close()
        raise
    return session


def _is_assigned_beside(request: LoadRequest, signature: Signature) -> bool:
    """Returns True if another loaded signature may assign variables of this signature."""
    return request.group is not None and is_assigned(signature.meta_graph, signature.key)


def _require_tensors(
    signature: Signature, graph: Any, what: str, ports: Sequence[tuple[str, str]]
) -> None:
    known = signature.inputs if what == "input" else signature.outputs
    for port, tensor in ports:
        try:
            graph.get_tensor_by_name(tensor if ":" in tensor else f"{tensor}:0")
        except (KeyError, ValueError) as error:
            raise unknown_port(signature.path, what, port, list(known.values())) from error


def _load(path: Path, signature: Signature) -> Any:
    tf = load_tensorflow()
    try:
        with tf.device("/device:CPU:0"):
            return tf.saved_model.load(str(path), tags=list(signature.tags))
    except (OSError, ValueError, KeyError, tf.errors.OpError) as error:
        raise _make_load_error(path, error) from error


def _make_load_error(path: Path, error: Any) -> EngineError:
    reason = str(getattr(error, "message", error)).splitlines()[0]
    return model_error(path, f"the SavedModel does not load, it may be incomplete: {reason}")


def _key(name: str, tensors: Mapping[str, str]) -> str | None:
    if name in tensors:
        return name
    full = name if ":" in name else f"{name}:0"
    return next((key for key, tensor in sorted(tensors.items()) if tensor == full), None)
