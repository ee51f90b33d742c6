"""Makes the flows of a version: of a graph file, or of each signature of a model."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from modelflow.config.flow_config import FlowConfig
from modelflow.config.override import apply_overrides, substitute_args
from modelflow.config.read import is_graph_file, read_config
from modelflow.engine.inference import inference_spec
from modelflow.engine.load_group import LoadGroup
from modelflow.engine.lookup import engine_for, engine_names, find_engine
from modelflow.engine.model_file import read_model_file
from modelflow.errors import ConfigError
from modelflow.flow import Flow
from modelflow.graph.beside import look_beside
from modelflow.model import model_graph, model_spec
from modelflow.wire.tf_serving.documents import DEFAULT_SIGNATURE, PREDICT_METHOD

if TYPE_CHECKING:
    from modelflow.serve.repository.source import ModelSettings

__all__ = [
    "NODE",
    "Further",
    "MakeFlow",
    "Signatures",
    "find_signatures",
    "list_placed",
    "make_flow",
]

NODE = "model"
"""The name of the node that runs a model which is no graph."""

_BATCH = 32  # what is there is merged up to this; nobody waits for more


class MakeFlow(Protocol):
    """Makes a flow, which does not run yet."""

    def __call__(self, group: LoadGroup | None = None, /) -> Flow:
        """Returns the flow; ``group`` is of the signatures that are loaded with it."""


@dataclass(frozen=True, slots=True)
class Further:
    """A signature that a model has beside the one that answers by default.

    Attributes:
        method: What it is for.
        open: Makes the flow of it.
    """

    method: str
    open: MakeFlow


@dataclass(frozen=True, slots=True)
class Signatures:
    """The ways in which a model can be called.

    Attributes:
        default: The name of the one that answers by default.
        method: What that is for.
        further: The others, by name.
        tensors: What the model's file calls the tensors of each signature, by port.
    """

    default: str = DEFAULT_SIGNATURE
    method: str = PREDICT_METHOD
    further: Mapping[str, Further] = field(default_factory=lambda: MappingProxyType({}))
    tensors: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: MappingProxyType({}))


def make_flow(
    path: Path, settings: "ModelSettings", signature: str = "", group: LoadGroup | None = None
) -> Flow:
    """Returns the flow of a graph file, an archive, or a model, which does not run yet.

    Args:
        path: The file, or the folder of the model.
        settings: Of the model.
        signature: Which of its signatures; empty: the default one.
        group: Of the signatures that are loaded with it.

    Raises:
        ConfigError, GraphError, EngineError: the graph or the model is wrong, or has no input.
    """
    if is_graph_file(path):
        return _graph_flow(path, settings)
    methods = _methods(path)
    if not signature and methods and f"{NODE}.signature" not in settings.overrides:
        signature = _default_of(methods)
    if methods:
        file = read_model_file(path, config={"signature": signature} if signature else None)
        spec = inference_spec(replace(file, group=group), NODE)
    else:
        spec = model_spec(path)
    inputs = {port.name: port.name for port in spec.inputs}
    outputs = {port.name: port.name for port in spec.outputs}
    if both := sorted(inputs.keys() & outputs.keys()):
        message = (
            f"model {path}: {both[0]!r} is the name of an input and of an output; serve a graph "
            "that gives them names of their own"
        )
        raise ConfigError(message)
    node = NODE
    while node in inputs or node in outputs:
        node += "_"
    attributes = {"flowunit": spec.name, "batch_size": _BATCH, **settings.batching}
    graph = model_graph(spec, attributes, inputs, outputs, node)
    return Flow(graph, units=(spec,), overrides=settings.overrides)


def find_signatures(path: Path, settings: "ModelSettings") -> Signatures:
    """Returns the ways in which a graph file or a model can be called."""
    methods = {} if is_graph_file(path) else _methods(path)
    if not methods or f"{NODE}.signature" in settings.overrides:
        return Signatures()
    default = _default_of(methods)
    further = {
        key: Further(method, partial(make_flow, path, settings, key))
        for key, method in methods.items()
        if key != default
    }
    engine = find_engine(engine_for(path))
    tensors = {key: engine.tensor_names(path, key) for key in methods}
    return Signatures(default, methods[default], further, tensors)


def list_placed(path: Path, settings: "ModelSettings") -> tuple[list[str], list[str]]:
    """Returns the nodes that a graph file places, and the placements that it declares.

    Raises:
        ConfigError: it cannot be read.
    """
    config = read_config(path)
    nodes = [node.name for node in config.nodes]
    config = settings.environment.fitting(nodes, config.args).apply(config)
    return list(_placed_in(config, settings)), list(config.placements)


def _methods(path: Path) -> Mapping[str, str]:
    if not any(find_engine(name).is_reader_of(path) for name in engine_names()):
        return {}  # the folder of a unit
    return find_engine(engine_for(path)).signatures(path)


def _default_of(methods: Mapping[str, str]) -> str:
    return DEFAULT_SIGNATURE if DEFAULT_SIGNATURE in methods else min(methods)


def _graph_flow(path: Path, settings: "ModelSettings") -> Flow:
    config = read_config(path)
    if config.archive is None:
        look_beside(path)
    nodes = [node.name for node in config.nodes]
    environment = settings.environment.fitting(nodes, config.args)
    with environment.named(nodes):
        flow = _flow(environment.apply(config), settings)
    if not flow.graph.inputs:
        message = (
            f"{path}: the graph has no input, so that there is nothing that a client could send; "
            "expected a node with type=input; what reads its own sources is run: "
            f"modelflow run {path}"
        )
        raise ConfigError(message)
    return flow


def _flow(config: FlowConfig, settings: "ModelSettings") -> Flow:
    overrides, args = settings.overrides, settings.args
    if settings.engine is None or not any(_placed_in(config, settings)):
        return Flow(config, overrides=overrides, args=args)
    from modelflow.remote import placed

    return Flow(placed(config, settings.engine(), overrides=overrides, args=args))


def _placed_in(config: FlowConfig, settings: "ModelSettings") -> Iterator[str]:
    config = substitute_args(apply_overrides(config, settings.overrides), settings.args)
    for node in config.nodes:
        is_unit = node.attributes.get("type") in (None, "flowunit")
        if is_unit and node.attributes.get("placement"):
            yield node.name
