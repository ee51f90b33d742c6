"""Flow units in folders: ``NAME.toml`` beside its Python code or its model."""

import dataclasses
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from modelflow.errors import ConfigError, Finding, Location, UnknownFlowUnitError, did_you_mean
from modelflow.flowunit.folder_schema import BASE_KEYS, ENCRYPTION_MESSAGE, PORT_KEYS, TYPES
from modelflow.flowunit.option import Option
from modelflow.flowunit.python_module import load_class
from modelflow.flowunit.spec import FlowUnitSpec, Kind, Port

__all__ = ["read_folder", "read_unit_file", "read_unit_folder"]

FindUnit = Callable[[str], FlowUnitSpec]
_MAX_BYTES = 1 << 20


def read_folder(folder: Path, find_unit: FindUnit) -> Iterator[FlowUnitSpec]:
    """Gives the units of every unit file in ``folder`` and the folders inside it.

    Other TOML files (graphs, say) are passed over: a unit file has a ``[base]`` section.

    Args:
        folder: Where to look.
        find_unit: Finds the installed unit that a configuration-only unit builds on.

    Raises:
        ConfigError: the folder is not there, or a unit file is wrong.
    """
    if not folder.is_dir():
        message = f"{folder}: there is no such folder; [driver] dir names folders of flow units"
        raise ConfigError(message)
    for path in sorted(folder.rglob("*.toml")):
        values = _values(path)
        if "base" in values:
            yield _spec(path, values, find_unit)


def read_unit_file(path: Path, find_unit: FindUnit) -> FlowUnitSpec:
    """Returns the unit of one unit file.

    Raises:
        ConfigError: it is not one, or is wrong; every mistake is listed.
    """
    return _spec(path, _values(path), find_unit)


def read_unit_folder(folder: Path, name: str | None = None) -> FlowUnitSpec:
    """Returns the unit in ``folder``; the one called ``name`` where it holds several.

    Raises:
        ConfigError: there is none, or several and no name.
    """
    found = {spec.name: spec for spec in read_folder(folder, _no_unit)}
    if name is None and len(found) == 1:
        return next(iter(found.values()))
    if name is None or name not in found:
        units = ", ".join(found) or "none"
        what = f"no unit {name!r}{did_you_mean(name, found)}" if name else "expected one unit"
        message = f"{folder}: {what} (units: {units})"
        raise ConfigError(message)
    return found[name]


def _no_unit(name: str) -> FlowUnitSpec:
    message = f"a unit that configures {name!r} cannot be used here; use it in a graph"
    raise ConfigError(message)


def _values(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > _MAX_BYTES:
            message = f"{path}: larger than {_MAX_BYTES} bytes; expected a unit file"
            raise ConfigError(message)
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        message = f"{path}: TOML: {error}"
        raise ConfigError(message) from error


def _spec(path: Path, values: Mapping[str, Any], find_unit: FindUnit) -> FlowUnitSpec:
    reader = _UnitFile(path, values)
    spec = reader.spec(find_unit)
    if reader.findings:
        raise ConfigError(reader.findings)
    assert spec is not None  # without findings there is one
    return spec


class _UnitFile:
    """Reads one unit file, collecting what is wrong with it."""

    def __init__(self, path: Path, values: Mapping[str, Any]) -> None:
        self._path = path
        self._values = values
        self.findings: list[Finding] = []

    def spec(self, find_unit: FindUnit) -> FlowUnitSpec | None:
        for section in self._values:
            known = ("base", "config", "input", "output", "encryption")
            if section not in known:
                near = did_you_mean(section, known)
                self._wrong(f"unknown section [{section}]{near} (sections: {', '.join(known)})")
        if self._values.get("encryption"):
            self._wrong(ENCRYPTION_MESSAGE)
        base = self._keys("[base]", self._values.get("base", {}), BASE_KEYS)
        inputs, outputs = self._ports("input"), self._ports("output")
        if self.findings:
            return None
        if base["type"] == "python":
            return self._python(base, inputs, outputs)
        if base["type"] == "inference":
            return self._inference(base, inputs, outputs)
        if base["type"] in TYPES:
            self._wrong(f"[base] type={base['type']!r}: {TYPES[base['type']]}")
            return None
        return self._configured(base, inputs, outputs, find_unit)

    def _python(
        self, base: Mapping[str, Any], inputs: tuple[Port, ...], outputs: tuple[Port, ...]
    ) -> FlowUnitSpec | None:
        module, at, name = base["entry"].partition("@")
        file = self._path.parent / f"{module}.py"
        if not at or not name:
            self._wrong(f"[base] entry: got {base['entry']!r}; expected 'file@ClassName'")
            return None
        if not file.is_file():
            there = [path.stem for path in self._path.parent.glob("*.py")]
            self._wrong(f"[base] entry: there is no {file.name}{did_you_mean(module, there)}")
            return None
        kind = self._kind(base)
        notes: tuple[str, ...] = ()
        if base["stream"] is None and kind is Kind.STREAM:
            notes = (
                f"unit {base['name']!r}: 'stream' is left out, so it is a stream unit; "
                "say stream=false for a normal one",
            )
        return FlowUnitSpec(
            devices={base["device"]: partial(load_class, file, name)},
            inputs=inputs,
            outputs=outputs,
            options=_options(self._config()),
            kind=kind,
            accepts_any_option=True,
            batch_size=base["default_batch_size"],
            max_batch_size=base["max_batch_size"] or (1 if kind is Kind.STREAM else None),
            is_exception_visible=base["exception_visible"],
            is_same_count=base["stream_same_count"],
            notes=notes,
            required_files=(file,),
            **self._common(base),
        )

    def _inference(
        self, base: Mapping[str, Any], inputs: tuple[Port, ...], outputs: tuple[Port, ...]
    ) -> FlowUnitSpec | None:
        # Imported late: the engines stand above the flow units, and find their units by name.
        from modelflow.engine.inference import inference_spec
        from modelflow.engine.model_file import ModelFile

        if not base["virtual_type"]:
            self._wrong("[base] virtual_type: got nothing; expected an engine, such as tensorflow")
            return None
        model = ModelFile(
            self._path.parent / base["entry"],
            base["virtual_type"],
            inputs,
            outputs,
            self._config(),
        )
        try:
            return inference_spec(model, **self._common(base))
        except ConfigError as error:
            self._wrong(str(error))
            return None

    def _configured(
        self,
        base: Mapping[str, Any],
        inputs: tuple[Port, ...],
        outputs: tuple[Port, ...],
        find_unit: FindUnit,
    ) -> FlowUnitSpec | None:
        try:
            unit = find_unit(base["type"])
            unit.configure({**_placeholders(unit), **self._config()})
        except (ConfigError, UnknownFlowUnitError) as error:
            where = "[base] type" if isinstance(error, UnknownFlowUnitError) else "[config]"
            self._wrong(f"{where}: {error}")
            return None
        options = tuple(
            dataclasses.replace(option, default=self._config()[option.name])
            if option.name in self._config()
            else option
            for option in unit.option_list
        )
        return dataclasses.replace(
            unit,
            **self._common(base),
            inputs=inputs or unit.inputs,
            outputs=outputs or unit.outputs,
            options=_dataclass_with(unit.options, options),
            aliases=(),
        )

    def _common(self, base: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "name": base["name"],
            "description": base["description"],
            "version": base["version"],
            "group": base["group_type"] or "Custom",
            "location": Location(str(self._path)),
        }

    def _kind(self, base: Mapping[str, Any]) -> Kind:
        """ModelBox's order: expand and collapse win over condition and loop, those over stream."""
        for flag in ("expand", "collapse", "condition", "loop"):
            if base[flag]:
                return Kind(flag)
        return Kind.NORMAL if base["stream"] is False else Kind.STREAM

    def _config(self) -> dict[str, Any]:
        return dict(self._values.get("config", {}))

    def _ports(self, side: str) -> tuple[Port, ...]:
        tables = self._values.get(side, {})
        expected = [f"{side}{number}" for number in range(1, len(tables) + 1)]
        for key in tables:
            if key not in expected:
                self._wrong(
                    f"[{side}.{key}]: ports are numbered from {side}1 without gaps; "
                    f"expected {', '.join(expected)}"
                )
        ports = []
        for key in expected:
            if key in tables:
                keys = self._keys(f"[{side}.{key}]", tables[key], PORT_KEYS)
                ports.append(Port(keys["name"], dtype=keys["type"], device=keys["device"]))
        return tuple(ports)

    def _keys(
        self, where: str, given: Mapping[str, Any], options: Sequence[Option]
    ) -> dict[str, Any]:
        known = {option.name: option for option in options}
        found = {option.name: option.default for option in options}
        for key, value in given.items():
            if key not in known:
                near = did_you_mean(key, known)
                self._wrong(f"{where}: unknown key {key!r}{near} (keys: {', '.join(known)})")
                continue
            try:
                found[key] = known[key].convert(value)
            except ConfigError as error:
                self._wrong(f"{where}: {str(error).replace('option', 'key', 1)}")
        for option in options:
            if option.is_required and option.name not in given:
                self._wrong(f"{where}: {option.name!r} is required: {option.help}")
        return found

    def _wrong(self, message: str) -> None:
        self.findings.append(Finding(Location(str(self._path)), message, error=ConfigError))


def _options(config: Mapping[str, Any]) -> tuple[Option, ...]:
    """The options that ``[config]`` declares: their values are the defaults, and give the type."""
    return tuple(Option(name, _type_of(value), value) for name, value in config.items())


def _type_of(value: Any) -> Any:
    if isinstance(value, list):
        kinds = {type(item) for item in value}
        return list[kinds.pop()] if len(kinds) == 1 else list[str]  # type: ignore[misc]
    return type(value) if isinstance(value, bool | int | float | str) else Any


def _placeholders(unit: FlowUnitSpec) -> dict[str, Any]:
    """Values for required options, which a node may still give."""
    return {option.name: 1 for option in unit.option_list if option.is_required}


def _dataclass_with(options: Any, changed: tuple[Option, ...]) -> Any:
    if isinstance(options, tuple):
        return changed
    fields = [
        (
            option.name,
            option.type,
            dataclasses.field(
                default=option.default,
                metadata={
                    "help": option.help,
                    "aliases": option.aliases,
                    "minimum": option.minimum,
                    "maximum": option.maximum,
                    "is_path": option.is_path,
                },
            ),
        )
        for option in changed
        if not option.is_required
    ]
    return dataclasses.make_dataclass(options.__name__, fields, bases=(options,), frozen=True)
