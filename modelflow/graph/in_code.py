"""`FlowGraphDesc`: a graph built in code."""

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
        raise ConfigError(
            f"{self.node.name}[{self.port}]: name the output: {self.node.name}['...']"
        )


class FlowNodeDesc:
    """A node of a `FlowGraphDesc`.

    Attributes:
        name: Its name in the graph; until the graph is read, it may be given another.
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

    # How the second node of a unit is called.
    _numbered: ClassVar[str] = "{}_{}"
    _node: ClassVar[type[FlowNodeDesc]] = FlowNodeDesc

    def __init__(self, name: str = "", **sections: Mapping[str, Any]) -> None:
        """Begins an empty graph.

        Args:
            name: Its name.
            sections: Sections as in a graph file: ``graph={"queue_size": 8}``.
        """
        self._sections = {section: dict(keys) for section, keys in sections.items()}
        if name:
            self._sections.setdefault("flow", {})["name"] = name
        self._nodes: list[tuple[FlowNodeDesc, dict[str, Any]]] = []
        self._links: list[tuple[FlowPortDesc, FlowNodeDesc, str | None]] = []
        self._units: dict[str, FlowUnitSpec] = {}

    def add_input(self, name: str) -> FlowNodeDesc:
        """Adds an input of the graph; returns it, to be a source."""
        return self._add(name, {"type": "input"})

    def add_output(self, name: str, source: Any, device: str = "cpu") -> None:
        """Adds an output of the graph.

        Args:
            name: Its name.
            source: A node with one output, or ``node["port"]``.
            device: Where its results are wanted.
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
            ConfigError: a name twice, or a ``config`` or ``device`` of another form.
        """
        given: object = device  # a source stands there easily
        if not isinstance(given, str):
            raise ConfigError(
                f"add_node({flowunit!r}): device: got {type(given).__name__}; expected a text, as "
                "in device='cpu'; what comes before a node is its source="
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
        return self._add_unit(spec, source)

    @property
    def units(self) -> tuple[FlowUnitSpec, ...]:
        """The functions that were added, as flow units."""
        return tuple(self._units.values())

    # -- forms ----------------------------------------------------------------------------------

    def to_config(self) -> FlowConfig:
        """Returns the graph as if it had been read from a file.

        Raises:
            ConfigError: a name twice, a port that is not known by its number, or a wrong section.
        """
        names = self._names()
        for name in names:
            if names.count(name) > 1:
                raise ConfigError(
                    f"node {name!r}: there are two of that name; give one another name"
                )
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
        """Writes the graph; the form is that of the suffix: .toml .yaml .json .dot."""
        path = Path(path)
        form = FORM_BY_SUFFIX.get(path.suffix, path.suffix.lstrip("."))
        path.write_text(write_config(self.to_config(), form), encoding="utf-8")

    def _add_unit(self, spec: FlowUnitSpec, source: Any) -> FlowNodeDesc:
        """Adds a node that runs a unit of this graph alone."""
        self._units[spec.name] = spec
        node = self._add(self._free_name(spec.name), {"flowunit": spec.name, "device": "cpu"})
        node.outputs = spec.output_names
        self._connect(node, source)
        return node

    def _add(self, name: str, attributes: Mapping[str, Any]) -> FlowNodeDesc:
        if name in self._names():
            raise ConfigError(f"node {name!r}: there is one already; give another name")
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
            found.ref()  # a mistake is told where it is made
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
