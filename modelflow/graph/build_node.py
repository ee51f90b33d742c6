"""Builds a node from its entry in a graph file: its unit, settings, options and devices."""

import glob
import importlib.util
import os
import sys
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from modelflow.config.flow_config import FlowConfig, NodeConfig
from modelflow.config.node_settings import NodeOptions, NodeSettings
from modelflow.config.override import CallerText
from modelflow.config.schema import (
    DRAWING_ATTRIBUTES,
    IGNORED_ATTRIBUTES,
    NODE_ATTRIBUTES,
    SERVING_ALIASES,
    WITHOUT_EFFECT,
)
from modelflow.device import CPU, Device, parse_devices, require_devices
from modelflow.errors import (
    ConfigError,
    DeviceUnavailableError,
    GraphError,
    MissingDependencyError,
    ModelflowError,
    OptionsError,
    PortError,
    absence_hint,
    did_you_mean,
)
from modelflow.graph.check.report import Report
from modelflow.graph.node import Node, Role
from modelflow.registry.registry import Registry
from modelflow.unit.option import options_of
from modelflow.unit.spec import FlowUnitSpec

_ATTRIBUTES = {option.name: option for option in NODE_ATTRIBUTES}
_SETTINGS = {option.name: option.default for option in options_of(NodeOptions)}
_QUEUE_PREFIX = "queue_size_"


class NodeBuilder:
    """A builder for nodes, which resolves and converts the entry of a node."""

    unknown: set[str]
    """The nodes without a known unit; the checks skip these nodes."""

    def __init__(
        self, config: FlowConfig, registry: Registry, check_devices: bool, report: Report
    ) -> None:
        """Takes the arguments that are the same for every node.

        Args:
            config: The graph file.
            registry: The units.
            check_devices: Whether devices, and the files of units, must exist on this machine.
            report: Collects the mistakes.
        """
        self.unknown = set()
        self._config = config
        self._registry = registry
        self._check_devices = check_devices
        self._report = report
        self._is_strict = bool(config.graph.get("strict", True))

    def node(self, node: NodeConfig) -> Node:
        """Returns the node; a wrong value is replaced by its default."""
        spec = None
        wrong = len(self._report.findings)
        role = self._attribute(node, "type")
        if len(self._report.findings) > wrong:  # without a valid type, no more checks make sense
            self.unknown.add(node.name)
        elif role == "flowunit":
            spec = self._spec(node)
        given, options = self._sort_attributes(node, spec)
        settings = self._settings(node, given, spec)
        devices = self._devices(node, spec)
        converted = None if spec is None else self._configure(node, spec, options)
        return Node(
            name=node.name,
            role=Role(role),
            spec=spec,
            devices=devices,
            options=options,
            config=converted,
            settings=settings,
            location=node.location,
        )

    def _spec(self, node: NodeConfig) -> FlowUnitSpec | None:
        name = self._attribute(node, "flowunit") or node.name
        try:
            spec = self._registry.find(name)
        except ModelflowError as error:
            self.unknown.add(node.name)
            kind = type(error) if isinstance(error, GraphError) else ConfigError
            message = f"{error}{'' if node.attributes else self._near_node(node)}"
            self._report.wrong(node.location, message, node.name, kind)
            return None
        self._report.notes += [f"node {node.name!r}: {note}" for note in spec.notes]
        return spec

    def _near_node(self, node: NodeConfig) -> str:
        """Returns a hint for a node that only an edge names."""
        near = "" if self._report.has_many else did_you_mean(node.name, self._declared)
        if not near:
            return ""
        return f"; only an edge names {node.name!r}{near.replace('mean', 'mean the node')}"

    @cached_property
    def _declared(self) -> list[str]:
        """The nodes with attributes in the file."""
        return [node.name for node in self._config.nodes if node.attributes]

    def _sort_attributes(
        self, node: NodeConfig, spec: FlowUnitSpec | None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Separates settings of the node from options of the unit."""
        settings: dict[str, Any] = {}
        options: dict[str, Any] = {}
        own = {} if spec is None else spec.options_by_name
        is_sink = spec is not None and spec.is_sink
        for key, value in node.attributes.items():
            if key in own:
                options[key] = self._resolve(value, is_sink) if own[key].is_path else value
            elif key in _ATTRIBUTES or key.startswith(_QUEUE_PREFIX) or key in SERVING_ALIASES:
                settings[key] = value
            elif key in IGNORED_ATTRIBUTES:
                self._note(node, key)
            elif spec is None and node.name not in self.unknown and key not in DRAWING_ATTRIBUTES:
                near = did_you_mean(key, _ATTRIBUTES)
                self._report.wrong(node.location, f"unknown attribute {key!r}{near}", node.name)
            elif key not in DRAWING_ATTRIBUTES:
                options[key] = value
        if spec is not None and not self._is_strict:
            for key, problem in spec.unknown_options(options, _ATTRIBUTES).items():
                self._report.notes.append(f"node {node.name!r}: {problem}; it has no effect")
                del options[key]
        return settings, options

    def _resolve(self, value: Any, is_sink: bool) -> Any:
        """Returns a path of the graph file relative to the file's folder.

        The caller's paths stay relative to the working folder. So do paths of an archive if the
        file is not in the archive, or if a sink writes it.
        """
        if not isinstance(value, str) or isinstance(value, CallerText) or not value:
            return value
        path = self._config.path
        if "://" in value or path is None:  # a URL
            return value
        resolved = str(path.parent / value)
        is_there = os.path.exists(resolved) or bool(glob.glob(resolved))
        if self._config.archive is not None and (is_sink or not is_there):
            return value
        return resolved

    def _note(self, node: NodeConfig, key: str) -> None:
        self._report.notes.append(f"node {node.name!r}: {key} has no effect: {WITHOUT_EFFECT[key]}")

    def _settings(
        self, node: NodeConfig, given: Mapping[str, Any], spec: FlowUnitSpec | None
    ) -> NodeSettings:
        values = {
            name: self._attribute(node, name) if name in node.attributes else default
            for name, default in _SETTINGS.items()
        }
        inherited = {name for name in ("batch_size", "queue_size") if values[name] is None}
        values |= {name: self._config.graph.get(name) for name in inherited}
        for theirs, ours in SERVING_ALIASES.items():
            if theirs in given:
                values[ours] = self._serving(node, theirs, values)
                inherited.discard(ours)
        self._check_placement(node, values["placement"])
        queue_sizes = self._queue_sizes(node, given, spec)
        return NodeSettings(**values, queue_sizes=queue_sizes, inherited=frozenset(inherited))

    def _check_placement(self, node: NodeConfig, placement: str) -> None:
        known = self._config.placements
        if placement and placement not in known:
            near, names = did_you_mean(placement, known), ", ".join(known) or "none"
            message = (
                f"placement: got {placement!r}{near}; expected the NAME of a section "
                f"[placement.NAME] (there: {names})"
            )
            self._report.wrong(node.location, message, node.name)

    def _queue_sizes(
        self, node: NodeConfig, given: Mapping[str, Any], spec: FlowUnitSpec | None
    ) -> dict[str, int]:
        sizes: dict[str, int] = {}
        ports = () if spec is None else spec.input_names
        for key in given:
            port = key.removeprefix(_QUEUE_PREFIX)
            if port == key:
                continue
            if port in ports:
                size = self._convert(node, "queue_size", key, given[key])
                sizes |= {port: size} if size else {}
            elif key in IGNORED_ATTRIBUTES:
                self._note(node, key)
            elif spec is not None:
                near = did_you_mean(port, ports)
                self._report.wrong(
                    node.location, f"{key}: no input {port!r}{near}", node.name, PortError
                )
        return sizes

    def _serving(self, node: NodeConfig, theirs: str, values: Mapping[str, Any]) -> Any:
        ours, given = SERVING_ALIASES[theirs], node.attributes[theirs]
        if ours in node.attributes:
            self._report.wrong(node.location, f"got {theirs} beside {ours}; give one", node.name)
        value = self._convert(node, ours, theirs, given)
        if value is None:
            return values[ours]
        if theirs == "batch_timeout_micros":
            return value / 1e3
        if theirs == "max_enqueued_batches":
            return value * (values["batch_size"] or 1)
        return value

    def _devices(self, node: NodeConfig, spec: FlowUnitSpec | None) -> tuple[Device, ...]:
        usual = "cpu" if spec is None else next(iter(spec.devices))
        device = str(node.attributes.get("device") or usual)
        number = node.attributes.get("deviceid")
        if device == usual == "cpu" and number is None:
            return (CPU,)
        if number is None and ":" not in device and ";" not in device and device != "cpu":
            number = self._config.graph.get("deviceid")
        try:
            devices = parse_devices(device, None if number is None else str(number))
        except ConfigError as error:
            self._report.wrong(node.location, str(error), node.name)
            return (Device("cpu"),)
        kinds = () if spec is None else tuple(spec.devices)
        for kind in sorted({d.kind for d in devices} - set(kinds)) if kinds else ():
            message = (
                f"unit {spec.name!r} does not run on {kind!r}; it runs on {', '.join(kinds)}"
                if spec
                else ""
            )
            self._report.wrong(node.location, message, node.name)
            return devices
        if self._check_devices:
            try:
                require_devices(devices)
            except DeviceUnavailableError as error:
                self._report.wrong(node.location, str(error), node.name, DeviceUnavailableError)
        return devices

    def _configure(self, node: NodeConfig, spec: FlowUnitSpec, options: Mapping[str, Any]) -> Any:
        converted = None
        try:
            converted = spec.configure(options, also=_ATTRIBUTES)
        except OptionsError as error:
            for problem in error.problems:
                self._report.wrong(node.location, problem, node.name)
        if self._check_devices:
            self._look_for(node, spec, converted)
        return converted

    def _look_for(self, node: NodeConfig, spec: FlowUnitSpec, config: Any) -> None:
        """Reports the files and packages of a unit that are missing on this machine."""
        for path in spec.required_files:
            if not path.exists():
                message = f"unit {spec.name!r} needs the file {path}, which does not exist"
                self._report.wrong(node.location, message + absence_hint(path), node.name)
        for module, extra in spec.list_required_modules(config).items():
            if not _is_installed(module):
                error = MissingDependencyError(module, extra, f"unit {spec.name!r}")
                self._report.wrong(node.location, str(error), node.name)

    def _attribute(self, node: NodeConfig, name: str) -> Any:
        if name not in node.attributes:
            return _ATTRIBUTES[name].default
        return self._convert(node, name, name, node.attributes[name])

    def _convert(self, node: NodeConfig, name: str, written: str, value: Any) -> Any:
        try:
            return _ATTRIBUTES[name].convert(value, written)
        except ConfigError as error:
            self._report.wrong(node.location, str(error), node.name)
            return _ATTRIBUTES[name].default


def _is_installed(module: str) -> bool:
    """Tells whether a module can be imported, without an import."""
    if module in sys.modules:
        return sys.modules[module] is not None
    return importlib.util.find_spec(module) is not None
