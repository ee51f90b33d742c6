"""The class `FlowGraphDesc`: a graph built in code."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from modelflow.config.document import FORM_BY_SUFFIX
from modelflow.config.flow_config import EdgeConfig, FlowConfig, NodeConfig, PortRef
from modelflow.config.read import read_config
from modelflow.config.write import write_config
from modelflow.errors import ConfigError
from modelflow.unit.function import flowunit
from modelflow.unit.spec import FlowUnitSpec


class FlowPortDesc:
    """An output of a node as the source of another node; made by ``node["port"]``."""

    def __init__(self, node: "FlowNodeDesc", port: "str | int | None") -> None:
        self.node = node
        self.port = port

    def ref(self) -> PortRef:
        """Returns the end of an edge.

        Raises:
            ConfigError: The port is a number, but the outputs of the node are unknown.
        """
        if not isinstance(self.port, int):
            return PortRef(self.node.name, self.port)
        outputs = self.node.outputs
        if outputs and 0 <= self.port < len(outputs):
            return PortRef(self.node.name, outputs[self.port])
        if self.port == 0:
            return PortRef(self.node.name)  # the only output, or a later error names the outputs
        raise ConfigError(
            f"{self.node.name}[{self.port}]: name the output: {self.node.name}['...']"
        )


class FlowNodeDesc:
    """A node of a `FlowGraphDesc`.

    Attributes:
        name: The name in the graph. You may change the name until the graph is read.
        outputs: The names of the outputs, if known.
    """

    def __init__(self, name: str, outputs: Sequence[str] = ()) -> None:
        self.name = name
        self.outputs = tuple(outputs)

    def __getitem__(self, port: str | int) -> FlowPortDesc:
        return FlowPortDesc(self, port)


class FlowGraphDesc:
    """A graph built in code, to give to `modelflow.Flow` or to write as a file.

    ::

        desc = FlowGraphDesc()
        image = desc.add_input("image")
        decode = desc.add_node("image_decoder", source=image)
        small = desc.add_node("resize", source=decode, image_width=224, image_height=224)
        desc.add_output("small", small)

    Use a graph description from one thread only.
    """

    # The name of the second node of a unit: name, number.
    _numbered: ClassVar[str] = "{}_{}"
    _node: ClassVar[type[FlowNodeDesc]] = FlowNodeDesc

    def __init__(self, name: str = "", **sections: Mapping[str, Any]) -> None:
        """Makes an empty graph.

        Args:
            name: The name.
            sections: Sections as in a graph file: ``graph={"queue_size": 8}``.
        """
        self._sections = {section: dict(keys) for section, keys in sections.items()}
        if name:
            self._sections.setdefault("flow", {})["name"] = name
        self._nodes: list[tuple[FlowNodeDesc, dict[str, Any]]] = []
        self._links: list[tuple[FlowPortDesc, FlowNodeDesc, str | None]] = []
        self._units: dict[str, FlowUnitSpec] = {}

    def add_input(self, name: str) -> FlowNodeDesc:
        """Adds an input of the graph, and returns the input as a source."""
        return self._add(name, {"type": "input"})

    def add_output(self, name: str, source: Any, device: str = "cpu") -> None:
        """Adds an output of the graph.

        Args:
            name: The name.
            source: A node with one output, or ``node["port"]``.
            device: The device for the results.
        """
        self._connect(self._add(name, {"type": "output", "device": device}), source)

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
        """Adds a node, and returns the node as a source.

        Args:
            flowunit: The unit.
            device: The node attribute ``device``.
            config: Attributes and options: ``["image_width=224", ...]`` or a mapping. A source in
                this place (``add_node(unit, device, source)``) is accepted.
            source: A node with one output, ``node["port"]``, or ``{input: either}``.
            name: The node's name. None: the unit's name, with a number if the name is in use.
            options: Attributes and options, as keywords.

        Raises:
            ConfigError: The name is in use, or ``config`` or ``device`` has another form.
        """
        given: object = device  # callers often pass the source here by mistake
        if not isinstance(given, str):
            raise ConfigError(
                f"add_node({flowunit!r}): device: got {type(given).__name__}; expected a text, as "
                "in device='cpu'; a node before it is given as source="
            )
        if source is None and _is_source(config):
            config, source = None, config
        unit = flowunit.rpartition(":")[2]
        attributes = {"flowunit": flowunit, "device": device, **_attributes(config), **options}
        node = self._add(self._free_name(unit) if name is None else name, attributes)
        self._connect(node, source)
        return node

    def add_function(
        self,
        function: Callable[..., Any],
        inputs: Sequence[str] | None = None,
        outputs: Sequence[str] = ("out",),
        source: Any = None,
    ) -> FlowNodeDesc:
        """Adds a node that runs a Python function; see `modelflow.flowunit` for its arguments.

        Args:
            function: The function.
            inputs: The names of its inputs. None: the names of its positional parameters.
            outputs: The names of its outputs.
            source: As for `add_node`.
        """
        spec: FlowUnitSpec | None = getattr(function, "SPEC", None)
        if spec is None:
            flowunit(inputs=inputs, outputs=outputs)(function)
            spec = function.SPEC  # type: ignore[attr-defined]
        assert isinstance(spec, FlowUnitSpec)  # set by the decorator
        return self._add_unit(spec, source)

    @property
    def units(self) -> tuple[FlowUnitSpec, ...]:
        """The added functions, as flow units."""
        return tuple(self._units.values())

    # -- forms ----------------------------------------------------------------------------------

    def to_config(self) -> FlowConfig:
        """Returns the graph as values of a graph file.

        Raises:
            ConfigError: A name is used twice, the number of a port is unknown, or a section is
                wrong.
        """
        names = self._names()
        for name in names:
            if names.count(name) > 1:
                raise ConfigError(f"node {name!r}: two nodes have this name; give one another name")
        return replace(
            read_config(self._sections),
            nodes=tuple(NodeConfig(node.name, given) for node, given in self._nodes),
            edges=tuple(
                EdgeConfig(end.ref(), PortRef(node.name, port)) for end, node, port in self._links
            ),
        )

    def to_toml(self) -> str:
        """Returns the graph as TOML in the native form."""
        return write_config(self.to_config(), "toml")

    def to_dot(self) -> str:
        """Returns the graph as DOT."""
        return write_config(self.to_config(), "dot")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the graph in the form of the suffix: .toml .yaml .json .dot."""
        path = Path(path)
        form = FORM_BY_SUFFIX.get(path.suffix, path.suffix.lstrip("."))
        path.write_text(write_config(self.to_config(), form), encoding="utf-8")

    def _add_unit(self, spec: FlowUnitSpec, source: Any) -> FlowNodeDesc:
        """Adds a node whose unit belongs to this graph only."""
        self._units[spec.name] = spec
        node = self._add(self._free_name(spec.name), {"flowunit": spec.name, "device": "cpu"})
        node.outputs = spec.output_names
        self._connect(node, source)
        return node

    def _add(self, name: str, attributes: Mapping[str, Any]) -> FlowNodeDesc:
        if name in self._names():
            raise ConfigError(f"node {name!r}: the name is in use; give another name")
        node = self._node(name)
        self._nodes.append((node, dict(attributes)))
        return node

    def _names(self) -> list[str]:
        return [node.name for node, _ in self._nodes]

    def _free_name(self, name: str) -> str:
        names, number, free = self._names(), 1, name
        while free in names:
            number += 1
            free = self._numbered.format(name, number)
        return free

    def _connect(self, node: FlowNodeDesc, source: Any) -> None:
        if source is None:
            return
        ends = source if isinstance(source, Mapping) else {None: source}
        for port, end in ends.items():
            found = _end(end)
            found.ref()  # reports a mistake here, at the caller's line
            self._links.append((found, node, port))


def _is_source(value: Any) -> bool:
    if isinstance(value, Mapping):
        return bool(value) and all(_is_source(item) for item in value.values())
    return isinstance(value, FlowNodeDesc | FlowPortDesc)


def _end(source: Any) -> FlowPortDesc:
    if isinstance(source, FlowNodeDesc):
        return source[0]
    if isinstance(source, FlowPortDesc):
        return source
    raise ConfigError(
        f"source: got {source!r}; expected a node, node['port'], or a mapping of inputs"
    )


def _attributes(config: Any) -> dict[str, Any]:
    if config is None:
        return {}
    if isinstance(config, Mapping):
        return dict(config)
    found = {}
    for item in [config] if isinstance(config, str) else config:
        key, equals, value = str(item).partition("=")
        if not equals:
            raise ConfigError(f"config: got {item!r}; expected 'key=value'")
        found[key.strip()] = value.strip()
    return found
