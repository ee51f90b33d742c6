"""`FlowGraphDesc`: a graph built in code, in ModelBox's order of arguments."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from modelflow.compat.modelbox.adapter import FunctionUnit, UnitAdapter
from modelflow.compat.modelbox.flowunit import DataContext
from modelflow.config.flow_config import EdgeConfig, FlowConfig, NodeConfig, PortRef
from modelflow.errors import ConfigError
from modelflow.unit.kind import Kind
from modelflow.unit.port import Port
from modelflow.unit.spec import FlowUnitSpec

__all__ = ["FlowGraphDesc", "FlowNodeDesc", "FlowPortDesc"]


class FlowPortDesc:
    """An output of a node, by name or by number."""

    def __init__(self, node: "FlowNodeDesc", port: str | int) -> None:
        self._node = node
        self._port = port

    def get_node_name(self) -> str:
        """Returns the name of the node."""
        return self._node.get_node_name()

    def get_port_name(self) -> str:
        """Returns the name of the port, as far as it is known."""
        return self.ref().port or ""

    def ref(self) -> PortRef:
        """Returns the end of an edge.

        Raises:
            ConfigError: there is no such number.
        """
        name = self._node.get_node_name()
        if isinstance(self._port, str):
            return PortRef(name, self._port)
        outputs = self._node.outputs
        if self._port < len(outputs):
            return PortRef(name, outputs[self._port])
        if outputs or self._port:
            message = f"{name}[{self._port}]: name the output: node['...']"
            raise ConfigError(message)
        return PortRef(name)


class FlowNodeDesc:
    """A node; to be given as the source of others."""

    def __init__(self, name: str, outputs: Sequence[str] = ()) -> None:
        self._name = name
        self.outputs = tuple(outputs)

    def set_node_name(self, name: str) -> None:
        """Names the node."""
        self._name = name

    def get_node_name(self) -> str:
        """Returns the node's name."""
        return self._name

    def __getitem__(self, port: str | int) -> FlowPortDesc:
        return FlowPortDesc(self, port)


_Source = FlowNodeDesc | FlowPortDesc
_function_numbers = itertools.count()


class FlowGraphDesc:
    """A graph built in code, for `Flow.init`."""

    def __init__(self) -> None:
        self._graph: dict[str, Any] = {}
        self._driver: dict[str, Any] = {}
        self._profile: dict[str, Any] = {}
        self._nodes: list[tuple[FlowNodeDesc, dict[str, Any]]] = []
        self._links: list[tuple[_Source, FlowNodeDesc, str | None]] = []
        self._units: list[FlowUnitSpec] = []

    def set_queue_size(self, queue_size: int) -> None:
        """Sets the default of ``queue_size``."""
        self._graph["queue_size"] = queue_size

    def set_batch_size(self, batch_size: int) -> None:
        """Sets the default of ``batch_size``."""
        self._graph["batch_size"] = batch_size

    def set_drivers_dir(self, drivers_dir_list: Sequence[str]) -> None:
        """Sets the folders that are searched for units."""
        given = drivers_dir_list
        self._driver["dir"] = [given] if isinstance(given, str) else list(given)

    def set_skip_default_drivers(self, is_skip: bool) -> None:
        """Leaves the built-in units out."""
        self._driver["skip-default"] = is_skip

    def set_profile_dir(self, profile_dir: str) -> None:
        """Sets the folder that profiles go to."""
        self._profile["dir"] = profile_dir

    def set_profile_trace_enable(self, profile_trace_enable: bool) -> None:
        """Records every execution."""
        self._profile["trace"] = profile_trace_enable

    def add_input(self, input_name: str) -> FlowNodeDesc:
        """Adds an input of the graph."""
        return self._add(input_name, {"type": "input"}, (input_name,))

    def add_output(self, output_name: str, source: _Source, device: str = "cpu") -> None:
        """Adds an output of the graph."""
        node = self._add(output_name, {"type": "output", "device": device}, ())
        self._link(node, source)

    def add_node(
        self, flowunit_name: str, device: str = "cpu", config: Any = None, source: Any = None
    ) -> FlowNodeDesc:
        """Adds a node.

        Args:
            flowunit_name: The unit.
            device: Where it runs.
            config: ``["key=value", ...]``; or the source, where no ``source`` follows.
            source: A node, ``node["port"]``, or ``{input: port}``.

        Raises:
            ConfigError: a config of another form.
        """
        if source is None and not _is_config(config):
            config, source = None, config
        pairs = [str(item).partition("=") for item in config or ()]
        if any(not equals for _, equals, _ in pairs):
            message = f"config: got {config!r}; expected ['key=value', ...]"
            raise ConfigError(message)
        attributes = {key.strip(): value.strip() for key, _, value in pairs}
        given = {"flowunit": flowunit_name, "device": device, **attributes}
        node = self._add(flowunit_name, given, ())
        self._link(node, source)
        return node

    def add_function(
        self,
        func: Callable[[DataContext], Any],
        input_name_list: Sequence[str],
        output_name_list: Sequence[str],
        source: Any = None,
    ) -> FlowNodeDesc:
        """Adds a node that calls ``func(data_context)``, which returns a `Status` or its code."""
        name = f"register_func_{next(_function_numbers)}"
        called = getattr(func, "__name__", "")
        if called.isidentifier():
            name += f"_{called}"  # so that errors say which
        self._units.append(
            FlowUnitSpec(
                name,
                {"cpu": partial(_function_unit, func)},
                inputs=tuple(map(Port, input_name_list)),
                outputs=tuple(map(Port, output_name_list)),
                kind=Kind.STREAM,
                batch_size=8,
                is_shared=True,
                is_count_assumed=True,
                inherits_meta=False,
                accepts_any_option=True,
            )
        )
        node = self._add(name, {"flowunit": name}, output_name_list)
        self._link(node, source)
        return node

    @property
    def units(self) -> tuple[FlowUnitSpec, ...]:
        """The functions that were added, as flow units."""
        return tuple(self._units)

    def to_config(self) -> FlowConfig:
        """Returns the graph as if it had been read from a file.

        Raises:
            ConfigError: a name twice, or a port that is not known by its number.
        """
        names = [node.get_node_name() for node, _ in self._nodes]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            message = f"node {twice[0]!r}: there are two of that name"
            raise ConfigError(message)
        edges = []
        for source, target, port in self._links:
            end = source.ref() if isinstance(source, FlowPortDesc) else source[0].ref()
            edges.append(EdgeConfig(end, PortRef(target.get_node_name(), port)))
        return FlowConfig(
            nodes=tuple(NodeConfig(node.get_node_name(), given) for node, given in self._nodes),
            edges=tuple(edges),
            driver=dict(self._driver),
            profile=dict(self._profile),
            graph=dict(self._graph),
        )

    def _add(self, name: str, attributes: dict[str, Any], outputs: Sequence[str]) -> FlowNodeDesc:
        taken = {node.get_node_name() for node, _ in self._nodes}
        free = name
        for number in itertools.count(2):
            if free not in taken:
                break
            free = f"{name}{number}"
        node = FlowNodeDesc(free, outputs)
        self._nodes.append((node, attributes))
        return node

    def _link(self, node: FlowNodeDesc, source: Any) -> None:
        if isinstance(source, Mapping):
            for port, end in source.items():
                self._links.append((end, node, port))
        elif isinstance(source, FlowNodeDesc) and len(source.outputs) > 1:
            inputs = self._inputs_of(node)
            for place, port in enumerate(source.outputs):
                self._links.append((source[port], node, inputs[place] if inputs else None))
        elif source is not None:
            self._links.append((source, node, None))

    def _inputs_of(self, node: FlowNodeDesc) -> tuple[str, ...]:
        unit = next((given.get("flowunit") for found, given in self._nodes if found is node), None)
        spec = next((spec for spec in self._units if spec.name == unit), None)
        return () if spec is None else tuple(port.name for port in spec.inputs)


def _is_config(value: Any) -> bool:
    return value is None or (
        isinstance(value, list | tuple) and not any(isinstance(v, _Source) for v in value)
    )


def _function_unit(function: Callable[[DataContext], Any]) -> UnitAdapter:
    return UnitAdapter(FunctionUnit(function))
