"""Frozen graphs: a ``.pb`` file whose ports are its tensors."""

from pathlib import Path
from typing import Any

from modelflow.engine.engine import LoadedModel, LoadRequest, model_error
from modelflow.engine.model_file import looks_like
from modelflow.engine.tensorflow.forms.signature import read_message
from modelflow.engine.tensorflow.library import load_tensorflow
from modelflow.engine.tensorflow.runners.graph import graph_model

_NO_RESULTS = ("Const", "Placeholder", "NoOp", "Assert")


def load_frozen_graph(request: LoadRequest) -> LoadedModel:
    """Loads a frozen graph. The default ports are its placeholders and its unconsumed results.

    Raises:
        EngineError: The file is no frozen graph, or lacks a tensor.
    """
    graph_def = _read(request.path)
    placeholders = tuple(node.name for node in graph_def.node if node.op == "Placeholder")
    inputs = request.inputs or placeholders
    outputs = request.outputs or _results(graph_def)
    ports = ([(name, name) for name in side] for side in (inputs, outputs))
    return graph_model(request, graph_def, *ports)


def _read(path: Path) -> Any:
    load_tensorflow()
    from tensorflow.core.framework import graph_pb2

    if path.name == "saved_model.pb":
        raise model_error(path, f"this is part of a SavedModel; give its folder, {path.parent}")
    graph_def = graph_pb2.GraphDef()
    read_message(path, graph_def, "a frozen TensorFlow graph")
    if not graph_def.node:
        raise model_error(path, f"{looks_like(path)}, without a node; expected a frozen graph")
    variables = [n.name for n in graph_def.node if n.op in ("VariableV2", "VarHandleOp")]
    if variables:
        raise model_error(
            path,
            f"the graph has variables ({variables[0]!r}, {len(variables)} in all), "
            "so it is not frozen; save it as a SavedModel, or with its variables as constants",
        )
    return graph_def


def _results(graph_def: Any) -> tuple[str, ...]:
    used = {name.lstrip("^").partition(":")[0] for node in graph_def.node for name in node.input}
    return tuple(
        node.name for node in graph_def.node if node.op not in _NO_RESULTS and node.name not in used
    )
