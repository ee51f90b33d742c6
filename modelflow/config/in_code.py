"""`FlowGraphDesc`: a graph built in code."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from modelflow.config.flow_config import EdgeConfig, FlowConfig, NodeConfig, PortRef
from modelflow.config.write import write_config
from modelflow.errors import ConfigError
from modelflow.unit.function import flowunit
from modelflow.unit.spec import FlowUnitSpec

__all__ = ["FlowGraphDesc", "FlowNodeDesc", "FlowPortDesc"]


class FlowPortDesc:
    """An output of a node, to be given as the source of another; from ``node["port"]``."""

    def __init__(self, node: "FlowNodeDesc", port: "str | int | None") -> None:
        self.node = node
        self.port = port

    def ref(self) -> PortRef:
        """Returns the end of an edge.

        Raises:
            ConfigError: the port is a number, and the node does not say its outputs.
        """
        if not isinstance(self.port, int):
            return PortRef(self.node.name, self.port)
        outputs = self.node.outputs
        if outputs and 0 <= self.port < len(outputs):
            return PortRef(self.node.name, outputs[self.port])
        if self.port == 0:
            return PortRef(self.node.name)  # the only one, or an error that names them
        message = f"{self.node.name}[{self.port}]: name the output: {self.node.name}['...']"
        raise ConfigError(message)


class FlowNodeDesc:
    """A node of a `FlowGraphDesc`.

    Attributes:
        name: Its name in the graph.
        outputs: The names of its outputs, where they are known.
    """

    def __init__(self, name: str, outputs: Sequence[str] = ()) -> None:
        self.name = name
        self.outputs = tuple(outputs)

    def __getitem__(self, port: str | int) -> FlowPortDesc:
        return FlowPortDesc(self, port)


class FlowGraphDesc:
    """A graph built in code; give it to `modelflow.Flow`, or write it as a file.

    ::

        desc = FlowGraphDesc()
        image = desc.add_input("image")
        decode = desc.add_node("image_decoder", source=image)
        small = desc.add_node("resize", source=decode, image_width=224, image_height=224)
        desc.add_output("small", small)

    To be used by one thread.
    """

    def __init__(self, name: str = "") -> None:
        """Begins an empty graph."""
        self._flow = {"name": name} if name else {}
        self._driver: dict[str, Any] = {}
        self._profile: dict[str, Any] = {}
        self._graph: dict[str, Any] = {}
        self._nodes: dict[str, NodeConfig] = {}
        self._edges: list[EdgeConfig] = []
        self._units: dict[str, FlowUnitSpec] = {}

    # -- settings -------------------------------------------------------------------------------

    def set_queue_size(self, queue_size: int) -> None:
        """Sets the default of the node attribute ``queue_size``."""
        self._graph["queue_size"] = queue_size

    def set_batch_size(self, batch_size: int) -> None:
        """Sets the default of the node attribute ``batch_size``."""
        self._graph["batch_size"] = batch_size

    def set_drivers_dir(self, folders: str | Sequence[str]) -> None:
        """Sets the folders that are searched for flow units."""
        self._driver["dir"] = [folders] if isinstance(folders, str) else list(folders)

    def set_skip_default_drivers(self, is_skip: bool) -> None:
        """Leaves the built-in and installed units out."""
        self._driver["skip-default"] = is_skip

    def set_profile_dir(self, folder: str) -> None:
        """Sets the folder that profiles go to."""
        self._profile["dir"] = folder

    def set_profile_trace_enable(self, is_enabled: bool) -> None:
        """Records every execution for the timeline."""
        self._profile["trace"] = is_enabled

    # -- the graph ------------------------------------------------------------------------------

    def add_input(self, name: str) -> FlowNodeDesc:
        """Adds an input of the graph; returns it, to be a source."""
        self._add(name, {"type": "input"})
        return FlowNodeDesc(name)

    def add_output(self, name: str, source: Any, device: str = "cpu") -> None:
        """Adds an output of the graph.

        Args:
            name: Its name.
            source: A node with one output, or ``node["port"]``.
            device: Where its results are wanted.
        """
        self._add(name, {"type": "output", "device": device})
        self._connect(name, source)

    def add_node(
        self,
        flowunit: str,
        device: str = "cpu",
        config: Any = None,
        source: Any = None,
        *,
        name: str | None = None,
        **options: Any,
    ) -> FlowNodeDesc:
        """Adds a node; returns it, to be a source.

        Args:
            flowunit: The unit.
            device: As the node attribute.
            config: Attributes and options: ``["image_width=224", ...]`` or a mapping. A source in
                this place (``add_node(unit, device, source)``) is understood.
            source: A node with one output, ``node["port"]``, or ``{input: either}``.
            name: The node's name; None: the unit's, with a number where it is taken.
            options: Attributes and options, as keywords.

        Raises:
            ConfigError: a name twice, or a ``config`` of another form.
        """
        if source is None and _is_source(config):
            config, source = None, config
        unit = flowunit.rpartition(":")[2]
        attributes = {"flowunit": flowunit, "device": device, **_attributes(config), **options}
        node = self._free_name(unit) if name is None else name
        self._add(node, attributes)
        self._connect(node, source)
        return FlowNodeDesc(node)

    def add_function(
        self,
        function: Callable[..., Any],
        inputs: Sequence[str] | None = None,
        outputs: Sequence[str] = ("out",),
        source: Any = None,
    ) -> FlowNodeDesc:
        """Adds a node that runs a Python function; see `modelflow.flowunit` for what it gets.

        Args:
            function: The function.
            inputs: The names of its inputs; None: of its positional parameters.
            outputs: The names of its outputs.
            source: As for `add_node`.
        """
        spec: FlowUnitSpec | None = getattr(function, "SPEC", None)
        if spec is None:
            flowunit(inputs=inputs, outputs=outputs)(function)
            spec = function.SPEC  # type: ignore[attr-defined]
        assert isinstance(spec, FlowUnitSpec)  # the decorator has set it
        self._units[spec.name] = spec
        node = self.add_node(spec.name, source=source)
        return FlowNodeDesc(node.name, [port.name for port in spec.outputs])

    @property
    def units(self) -> tuple[FlowUnitSpec, ...]:
        """The functions that were added, as flow units."""
        return tuple(self._units.values())

    # -- forms ----------------------------------------------------------------------------------

    def to_config(self) -> FlowConfig:
        """Returns the graph as if it had been read from a file."""
        return FlowConfig(
            nodes=tuple(self._nodes.values()),
            edges=tuple(self._edges),
            driver=dict(self._driver),
            profile=dict(self._profile),
            flow=dict(self._flow),
            graph=dict(self._graph),
        )

    def to_toml(self) -> str:
        """Returns the graph as TOML in the native form."""
        return write_config(self.to_config(), "toml")

    def to_dot(self) -> str:
        """Returns the graph as DOT."""
        return write_config(self.to_config(), "dot")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the graph; the form is that of the suffix: .toml .yaml .json .dot."""
        path = Path(path)
        form = {".yml": "yaml", ".gv": "dot"}.get(path.suffix, path.suffix.lstrip("."))
        path.write_text(write_config(self.to_config(), form), encoding="utf-8")

    def _add(self, name: str, attributes: Mapping[str, Any]) -> None:
        if name in self._nodes:
            message = f"node {name!r}: there is one already; give another name"
            raise ConfigError(message)
        self._nodes[name] = NodeConfig(name, dict(attributes))

    def _free_name(self, unit: str) -> str:
        number, name = 1, unit
        while name in self._nodes:
            number += 1
            name = f"{unit}_{number}"
        return name

    def _connect(self, node: str, source: Any) -> None:
        if source is None:
            return
        if isinstance(source, Mapping):
            for port, end in source.items():
                self._edges.append(EdgeConfig(_ref(end), PortRef(node, port)))
        else:
            self._edges.append(EdgeConfig(_ref(source), PortRef(node)))


def _is_source(value: Any) -> bool:
    if isinstance(value, Mapping):
        return bool(value) and all(_is_source(item) for item in value.values())
    return isinstance(value, FlowNodeDesc | FlowPortDesc)


def _ref(source: Any) -> PortRef:
    if isinstance(source, FlowNodeDesc):
        return FlowPortDesc(source, 0).ref()
    if isinstance(source, FlowPortDesc):
        return source.ref()
    message = f"source: got {source!r}; expected a node, node['port'], or a mapping of inputs"
    raise ConfigError(message)


def _attributes(config: Any) -> dict[str, Any]:
    if config is None:
        return {}
    if isinstance(config, Mapping):
        return dict(config)
    found = {}
    for item in [config] if isinstance(config, str) else config:
        key, equals, value = str(item).partition("=")
        if not equals:
            message = f"config: got {item!r}; expected 'key=value'"
            raise ConfigError(message)
        found[key.strip()] = value.strip()
    return found
