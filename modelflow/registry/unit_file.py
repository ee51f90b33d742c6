"""Reads one unit file, ``NAME.toml``, into a `FlowUnitSpec`, or lists all its mistakes."""

import dataclasses
import importlib.util
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from modelflow.config.document import Document
from modelflow.device import kind_problem
from modelflow.errors import ConfigError, EngineError, Finding, GraphError, Location, did_you_mean
from modelflow.plugins import find_entry_points
from modelflow.registry.folder_modules import UnitFolders
from modelflow.registry.folder_schema import BASE_KEYS, ENCRYPTION_MESSAGE, TYPES
from modelflow.registry.native import NativeUnit
from modelflow.registry.python_module import FolderClass, names_in, unit_defaults
from modelflow.registry.unit_sections import UnitSections
from modelflow.unit.kind import Count, Kind, Stream, kind_of
from modelflow.unit.option import Option, options_from, with_defaults
from modelflow.unit.spec import FlowUnitSpec, UnitFile

FindUnit = Callable[[str], FlowUnitSpec]
MakeUnit = Callable[[UnitFile], FlowUnitSpec]
# The types of other packages: a callable that takes a `UnitFile` and returns the `FlowUnitSpec`.
_TYPES_GROUP = "modelflow.unit_types"
_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*\Z")


@dataclass(frozen=True)
class UnusableUnit:
    """A unit that this version or machine cannot run, or whose file has mistakes.

    It is an error only when a graph names the unit.

    Attributes:
        name: The unit's name.
        location: Its file.
        reason: The reason, with advice.
        findings: The mistakes in its file.
    """

    name: str
    location: Location
    reason: str
    aliases: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()

    def error(self) -> ConfigError:
        """Returns the error for a graph that names this unit."""
        if self.findings:
            return ConfigError(self.findings)
        message = f"unit {self.name!r}: {self.reason}"
        return ConfigError([Finding(self.location, message, error=ConfigError)])


class UnitFileReader:
    """Reads one unit file and collects its mistakes."""

    def __init__(self, path: Path, document: Document, folders: UnitFolders) -> None:
        """Stores the path, the contents, and the folders of the registry's Python units."""
        self._path = path
        self._folders = folders
        self._sections = UnitSections(document)

    def unit(self, find_unit: FindUnit) -> FlowUnitSpec | UnusableUnit:
        """Returns the unit.

        Args:
            find_unit: Finds the installed unit that a configuration-only unit builds on.

        Raises:
            ConfigError: the file has mistakes. The error lists all of them.
        """
        self._sections.check()
        self._base = base = self._sections.read(("base",), self._sections.values["base"], BASE_KEYS)
        if problem := kind_problem(base["device"]):
            self._sections.wrong(("base", "device"), f"[base] device: {problem}")
        self._inputs, self._outputs = self._sections.ports("input"), self._sections.ports("output")
        found: FlowUnitSpec | UnusableUnit | None = None
        if not self._sections.findings:
            try:
                found = self._of_type(find_unit)
            except ConfigError as error:  # of the whole description, such as a repeated port
                if error.findings:
                    self._sections.findings += error.findings
                else:
                    self._sections.wrong((), str(error))
        if self._sections.findings or found is None:
            raise ConfigError(self._sections.findings)
        return found

    def _of_type(self, find_unit: FindUnit) -> FlowUnitSpec | UnusableUnit | None:
        kind = self._base["type"]
        if self._sections.values["encryption"]:
            return self._unusable(ENCRYPTION_MESSAGE)
        if kind in TYPES:
            return self._unusable(f"type={kind!r}: {TYPES[kind]}")
        makers: dict[str, Callable[[], FlowUnitSpec | UnusableUnit | None]]
        makers = {"python": self._python, "c++": self._native}
        if kind not in makers and (make_other := _maker_of(kind)) is not None:
            makers[kind] = partial(self._other, make_other)
        if kind not in makers:
            return self._configure(find_unit)
        if not self._inputs and not self._outputs:
            self._sections.wrong(
                (), "no [input.input1] and no [output.output1]; expected a port at least"
            )
            return None
        return makers[kind]()

    def _python(self) -> FlowUnitSpec | None:
        base = self._base
        module, _, name = base["entry"].partition("@")
        plain = module.removesuffix(".py")
        if plain != module or not _MODULE.match(module) or not name.isidentifier():
            got = base["entry"]
            near = f"; did you mean '{plain}@{name}'?" if plain != module and name else ""
            self._wrong("entry", f"got {got!r}; expected 'file@ClassName'{near}")
            return None
        file = self._path.parent.joinpath(*module.split(".")).with_suffix(".py")
        if not self._has_class(file, module, name):
            return None
        defaults = unit_defaults(file)
        kind = self._kind(defaults.pop("kinds", ()))
        notes: tuple[str, ...] = ()
        if base["stream"] is None and isinstance(kind, Stream):
            notes = (
                f"unit {base['name']!r}: 'stream' is left out, so it is a stream unit; "
                "say stream=false for a normal one",
            )
        flags = [flag for flag in _KINDS if base[flag]]
        if len(flags) > 1:
            notes += (f"unit {base['name']!r}: got {' and '.join(flags)}; it runs as {kind}",)
        self._folders.add(self._path.parent)
        make = FolderClass(self._folders, self._path.parent, module, name, base, not self._inputs)
        if not self._outputs:
            defaults.pop("threads", None)  # a sink must process its data in order
        return self._make_spec(
            dict.fromkeys((base["device"], "cpu"), make),
            file,
            kind=kind,
            max_batch_size=base["max_batch_size"] or (1 if isinstance(kind, Stream) else None),
            is_exception_visible=base["exception_visible"],
            notes=notes,
            **defaults,
        )

    def _kind(self, kinds: Iterable[Kind]) -> Kind:
        """Returns the kind in the section, or the equal kind of ``kinds``.

        The precedence is ModelBox's: expand and collapse, then condition and loop, then stream.
        """
        base = self._base
        plain = "source" if not self._inputs else "normal" if base["stream"] is False else "stream"
        name = next((flag for flag in _KINDS if base[flag]), plain)
        if name == "stream" and base["stream_same_count"]:
            return Stream(Count.SAME)
        return next((kind for kind in kinds if str(kind) == name), kind_of(name))

    def _native(self) -> FlowUnitSpec | None:
        base = self._base
        flags = [flag for flag in ("stream", *_KINDS) if base[flag]]
        if flags:
            message = f"[base] {flags[0]}: units of type c++ are normal ones"
            self._sections.wrong(("base", flags[0]), message)
        if not self._inputs or not self._outputs:
            self._sections.wrong((), "expected an [input.input1] and an [output.output1]")
        if not base["entry"]:
            self._wrong("entry", "got nothing; expected a library")
        if self._sections.findings:
            return None
        library = self._path.parent / base["entry"]
        make = partial(NativeUnit, library, self._inputs, self._outputs)
        return self._make_spec(
            {base["device"]: make}, library, max_batch_size=base["max_batch_size"]
        )

    def _make_spec(
        self, devices: Mapping[str, Callable[[], Any]], file: Path, **more: Any
    ) -> FlowUnitSpec:
        """Returns the unit of a class or a library; `more` are the fields that differ."""
        base = self._base
        return FlowUnitSpec(
            is_type_checked=False,
            devices=devices,
            inputs=self._inputs,
            outputs=self._outputs,
            options=options_from(self._sections.values["config"]),
            accepts_any_option=True,
            batch_size=base["default_batch_size"],
            is_compute_bound=base["compute_bound"],
            is_one_by_one=base["one_by_one"],
            hands_over_arrays=base["hands_over_arrays"],
            required_files=(file,),
            **more,
            **self._common(),
        )

    def _has_class(self, file: Path, module: str, name: str, key: str = "entry") -> bool:
        """Tells whether a Python file defines a class, without running the file."""
        if not file.is_file():
            there = [path.stem for path in file.parent.glob("*.py")]
            near = did_you_mean(module.rpartition(".")[2], there)
            self._wrong(key, f"there is no {file.relative_to(self._path.parent)}{near}")
            return False
        try:
            names = names_in(file)
        except SyntaxError as error:
            at = Location(str(file), error.lineno)
            self._sections.findings.append(Finding(at, f"Python: {error.msg}", error=ConfigError))
            return False
        if name not in names and "*" not in names:
            near = did_you_mean(name, {found for found in names if found[:1].isupper()})
            self._wrong(key, f"{file.name} has no class {name!r}{near}")
            return False
        return True

    def _other(self, make: MakeUnit) -> FlowUnitSpec | UnusableUnit | None:
        base = self._base
        if not base["entry"]:
            self._wrong("entry", "got nothing; expected a model")
        self._sections.check_types()
        try:
            found = self._find_model_class()
        except EngineError as error:
            return self._unusable(str(error))
        if self._sections.findings:
            return None
        file = UnitFile(
            self._path,
            self._path.parent / base["entry"],
            base["virtual_type"],
            self._inputs,
            self._outputs,
            self._sections.values["config"],
            self._common(),
            **found,
        )
        try:
            return make(file)
        except (EngineError, ImportError) as error:
            return self._unusable(str(error))

    def _find_model_class(self) -> dict[str, Any]:
        """Returns the fields ``find_class`` and ``modules`` of `UnitFile`.

        A module of that name in the unit's folder comes first, as in units of the type ``python``,
        and is imported later. Any other module is imported now, because another graph may later
        have another module of the same name.
        """
        virtual_type = self._base["virtual_type"]
        module, colon, name = virtual_type.partition(":")
        if not colon:
            return {}
        file = self._path.parent.joinpath(*module.split(".")).with_suffix(".py")
        if not file.is_file() and _MODULE.match(module) and _is_installed(module):
            from modelflow.engine.python.engine import import_class

            found = import_class(virtual_type)
            return {"find_class": partial(_return, found), "modules": (module,)}
        if not self._has_class(file, module, name, "virtual_type"):
            return {}
        self._folders.add(self._path.parent)
        return {"find_class": partial(_class_in, self._folders, self._path.parent, virtual_type)}

    def _configure(self, find_unit: FindUnit) -> FlowUnitSpec | UnusableUnit | None:
        base = self._base
        try:
            unit = find_unit(base["type"])
        except (ConfigError, GraphError) as error:
            known = ("python", "c++", "inference")
            near = did_you_mean(base["type"], known) or f": {error}"
            reason = (
                f"type: got {base['type']!r}{near}; expected {', '.join(known)}, or a unit to "
                "configure"
            )
            return self._unusable(reason)
        options = self._with_defaults(unit)
        if self._sections.findings:
            return None
        spec = dataclasses.replace(
            unit,
            **self._common(),
            inputs=self._inputs or unit.inputs,
            outputs=self._outputs or unit.outputs,
            options=with_defaults(unit.options, options),
            batch_size=base["default_batch_size"] or unit.batch_size,
            aliases=(),
        )
        if not any(option.is_required for option in options):
            spec.configure({})  # checks the defaults against each other
        return spec

    def _with_defaults(self, unit: FlowUnitSpec) -> tuple[Option, ...]:
        """Returns the unit's options with the values of ``[config]`` as their defaults."""
        known = unit.options_by_name
        changed = {option.name: option for option in unit.option_list}
        for key, value in self._sections.values["config"].items():
            if key not in known:
                near = did_you_mean(key, known)
                message = f"[config]: unit {unit.name!r} has no option {key!r}{near}"
                self._sections.wrong(("config", key), message)
                continue
            option = known[key]
            try:
                default = option.convert(value)
            except ConfigError as error:
                self._sections.wrong(("config", key), f"[config]: {error}")
                continue
            if option.is_path and isinstance(default, str) and default:
                default = str(self._path.parent / default)
            changed[option.name] = dataclasses.replace(option, default=default)
        return tuple(changed.values())

    def _wrong(self, key: str, message: str) -> None:
        self._sections.wrong(("base", key), f"[base] {key}: {message}")

    def _unusable(self, reason: str) -> UnusableUnit:
        return UnusableUnit(self._base["name"], Location(str(self._path)), reason)

    def _common(self) -> dict[str, Any]:
        base = self._base
        return {
            "name": base["name"],
            "description": base["description"],
            "version": base["version"],
            "group": base["group_type"] or "Custom",
            "location": Location(str(self._path)),
        }


_KINDS = ("expand", "collapse", "condition", "loop")


def _class_in(folders: UnitFolders, folder: Path, name: str) -> object:
    """Returns the class ``"module:Class"`` of a unit's folder."""
    from modelflow.engine.python.engine import get_class

    return get_class(folders.import_module(folder, name.partition(":")[0]), name)


def _return(value: object) -> object:
    return value


def _is_installed(module: str) -> bool:
    """Tells whether the package or module at the top of a name can be imported from elsewhere."""
    return importlib.util.find_spec(module.partition(".")[0]) is not None


def _maker_of(kind: str) -> MakeUnit | None:
    """Returns the maker of units of other types than Python and C++, or None."""
    if kind == "inference":
        from modelflow.engine.inference import inference_unit  # imported only if a graph has models

        return inference_unit
    found = [point for point in find_entry_points(_TYPES_GROUP) if point.name == kind]
    return found[0].load() if found else None
