"""The flows of a version: a single flow for a graph file, or a flow for each signature."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

# Imported early. The first load of a process would otherwise pay for the import within its time
# limit.
import modelflow.runtime.scheduler  # noqa: F401
from modelflow.config.flow_config import FlowConfig
from modelflow.config.override import apply_overrides, substitute_args
from modelflow.config.read import is_graph_file, read_config
from modelflow.engine.engine import LoadGroup
from modelflow.engine.inference import inference_spec, is_inference
from modelflow.engine.lookup import engine_for, engine_names, find_engine
from modelflow.engine.model_file import read_model_file
from modelflow.engine.python.unread import find_kind
from modelflow.errors import ConfigError
from modelflow.flow import Flow
from modelflow.graph.files import look_beside
from modelflow.model import model_graph, model_spec
from modelflow.serve.options import UNTUNED, Tuning
from modelflow.unit.spec import FlowUnitSpec
from modelflow.wire.tf_serving.documents import DEFAULT_SIGNATURE, PREDICT_METHOD

if TYPE_CHECKING:
    from modelflow.serve.repository.source import ModelSettings

NODE = "model"
"""The name of the node that runs a model that is no graph."""

_BATCH = 32  # the most items of a call; the node does not wait for more items


@dataclass(frozen=True, slots=True)
class SignatureFlow:
    """A signature of a version, and the function that creates its flow.

    Attributes:
        make: Creates the flow, which does not run yet. Signatures that are loaded together share
            the `LoadGroup`.
        name: The name of the signature.
        method: The method of the signature.
        tensor_names: The names of the tensors in the model's file, by port name.
    """

    make: Callable[[LoadGroup | None], Flow]
    name: str = DEFAULT_SIGNATURE
    method: str = PREDICT_METHOD
    tensor_names: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


def is_graph(path: Path) -> bool:
    """Tells whether a path has the suffix of a graph, and is no model in JSON (XGBoost)."""
    return is_graph_file(path) and find_kind(path) is None


def list_signatures(
    path: Path, settings: "ModelSettings", tuning: Tuning = UNTUNED
) -> list[SignatureFlow]:
    """Returns the signatures of a graph file or a model, the default signature first.

    Args:
        path: The graph file or the model.
        settings: The settings of the model.
        tuning: The settings of a client; see `ModelSettings`.

    Raises:
        ConfigError, EngineError: the model cannot be read.
    """
    settings = replace(settings, tuning=tuning)
    if is_graph(path):
        return [SignatureFlow(lambda _: _graph_flow(path, settings))]
    reader: str | None = settings.reader or None  # None for the folder of a unit
    if not reader and any(find_engine(name).is_reader_of(path) for name in engine_names()):
        reader = engine_for(path)
    engine = None if reader is None else find_engine(reader)
    methods = {} if engine is None else engine.signatures(path)
    if engine is None or not methods:
        make_spec = partial(model_spec, path, engine=settings.reader or None)
        return [SignatureFlow(lambda _: _model_flow(path, make_spec(), settings))]

    def make(signature: str, group: LoadGroup | None) -> Flow:
        config = {"signature": signature} if signature else None
        file = read_model_file(path, engine=reader, config=config)
        return _model_flow(path, inference_spec(replace(file, group=group), NODE), settings)

    if f"{NODE}.signature" in settings.overrides:
        return [SignatureFlow(partial(make, ""))]
    default = DEFAULT_SIGNATURE if DEFAULT_SIGNATURE in methods else min(methods)
    return [
        SignatureFlow(partial(make, name), name, methods[name], engine.tensor_names(path, name))
        for name in sorted(methods, key=lambda name: name != default)
    ]


def list_placed(config: FlowConfig, settings: "ModelSettings") -> list[str]:
    """Returns the names of the nodes of a graph that have a ``placement``."""
    nodes = [node.name for node in config.nodes]
    config = settings.environment.fitting(nodes, config.args).apply(config)
    return list(_find_placements(config, settings))


def _model_flow(path: Path, spec: FlowUnitSpec, settings: "ModelSettings") -> Flow:
    inputs = {port.name: port.name for port in spec.inputs}
    outputs = {port.name: port.name for port in spec.outputs}
    if both := sorted(inputs.keys() & outputs.keys()):
        raise ConfigError(
            f"model {path}: {both[0]!r} is the name of an input and of an output; serve a graph "
            "that gives them names of their own"
        )
    node = NODE
    while node in inputs or node in outputs:
        node += "_"
    attributes = {"flowunit": spec.name, "batch_size": _BATCH, **settings.batching}
    graph = model_graph(spec, attributes, inputs, outputs, node)
    return Flow(graph, units=(spec,), overrides=_add_tuning(settings, node))


def _graph_flow(path: Path, settings: "ModelSettings") -> Flow:
    config = read_config(path)
    if config.archive is None:
        look_beside(path)
    nodes = [node.name for node in config.nodes]
    environment = settings.environment.fitting(nodes, config.args)
    with environment.name_errors(nodes):
        flow = _flow(environment.apply(config), settings)
    if not flow.graph.inputs:
        raise ConfigError(
            f"{path}: the graph has no input that a client could send; expected a node with "
            f"type=input. Run a graph that reads its own sources: modelflow run {path}"
        )
    return flow


def _flow(config: FlowConfig, settings: "ModelSettings") -> Flow:
    overrides, args = settings.overrides, settings.args
    if settings.tuning:
        overrides = _add_tuning(
            settings, _find_model_node(Flow(config, overrides=overrides, args=args))
        )
    if settings.engine is None or not any(_find_placements(config, settings)):
        return Flow(config, overrides=overrides, args=args)
    from modelflow.remote import place_nodes

    return Flow(place_nodes(config, settings.engine(), overrides=overrides, args=args))


def _add_tuning(settings: "ModelSettings", node: str) -> Mapping[str, Any]:
    """Returns the overrides, with the settings of a client for a node."""
    tuned = {f"{node}.{key}": value for key, value in settings.tuning.items()}
    return {**settings.overrides, **tuned}


def _find_model_node(flow: Flow) -> str:
    """Returns the node whose calls count as calls of the model; see `snapshot.model_node`."""
    specs = {node.name: node.spec for node in flow.graph.nodes.values() if node.spec is not None}
    engines = [name for name, spec in specs.items() if is_inference(spec)]
    return (engines or [*specs])[-1]


def _find_placements(config: FlowConfig, settings: "ModelSettings") -> Iterator[str]:
    config = substitute_args(apply_overrides(config, settings.overrides), settings.args)
    for node in config.nodes:
        is_unit = node.attributes.get("type") in (None, "flowunit")
        if is_unit and node.attributes.get("placement"):
            yield node.name
