"""The units of a graph and the settings of a node, for the palette and the inspector. Pure."""

from collections.abc import Sequence
from typing import Any

from modelflow.config.node_settings import NodeOptions
from modelflow.registry.registry import Registry
from modelflow.unit.option import Option, choices_of, options_of, type_name
from modelflow.unit.port import Port
from modelflow.unit.spec import FlowUnitSpec

SETTINGS: Sequence[Option] = (
    Option("device", str, "cpu", "Device to run on: cpu, cuda, cuda:1, or several: cuda:0;cuda:1."),
    *options_of(NodeOptions),
)
"""The attributes of every node that runs a unit."""


def catalog_of(registry: Registry) -> dict[str, Any]:
    """Returns all units and the settings of a node as JSON values."""
    return {
        "units": [spec_document(spec) for spec in registry.specs()],
        "settings": [_option(option) for option in SETTINGS],
        "problems": list(registry.problems()),
    }


def spec_document(spec: FlowUnitSpec) -> dict[str, Any]:
    """Returns the description of a unit."""
    kind = "source" if spec.is_source else "sink" if spec.is_sink else str(spec.kind)
    return {
        "name": spec.name,
        "kind": kind,
        "group": spec.group,
        "about": spec.description.split("\n")[0],
        "description": spec.description,
        "devices": list(spec.devices),
        "inputs": list(map(port_document, spec.inputs)),
        "outputs": list(map(port_document, spec.outputs)),
        "options": [_option(option) for option in spec.option_list],
    }


def port_document(port: Port) -> dict[str, Any]:
    """Returns the description of a port, with its type in short form."""
    return {
        "name": port.name,
        "type": " ".join(part for part in (port.dtype, port.shape) if part),
        "dtype": port.dtype,
        "about": port.description,
        "optional": port.is_optional,
    }


def _option(option: Option) -> dict[str, Any]:
    bounds = {"minimum": option.minimum, "maximum": option.maximum}
    return {
        "name": option.name,
        "type": type_name(option.type),
        "choices": choices_of(option.type),
        "default": "" if option.is_required else show_value(option.default),
        "required": option.is_required,
        "help": option.help,
        **{key: value for key, value in bounds.items() if value is not None},
    }


def show_value(value: Any) -> str:
    """Returns a value as text for a field of a page."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
