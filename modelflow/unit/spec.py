"""The specification of a flow unit: kind, ports, options and devices. Its import is fast."""

import importlib
import pkgutil
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

from modelflow.errors import (
    BadRequest,
    ConfigError,
    Finding,
    Location,
    OptionsError,
    did_you_mean,
)
from modelflow.unit.advice import Advise
from modelflow.unit.kind import KIND_TYPES, Kind, Normal, Source
from modelflow.unit.option import REQUIRED, Config, Option, options_of
from modelflow.unit.port import ARRAY_TYPES, Port

if TYPE_CHECKING:
    from modelflow.unit.unit import FlowUnit


# Type of a port -> NumPy's name. Other names are NumPy's own.
DECLARED_TYPES: Mapping[str, str] = MappingProxyType(
    {
        "float": "float32",
        "double": "float64",
        "int": "int32",
        "long": "int64",
        "half": "float16",
        "string": "object",
        "str": "object",
    }
)


@dataclass(frozen=True)
class UnitFile:
    """The content of a unit file, for the type of unit that its ``type`` names.

    In addition to modelflow's own types, a package can add types with the entry point
    ``modelflow.unit_types``. It names a callable that takes this value and returns the
    `FlowUnitSpec`.
    """

    path: Path
    """The file."""
    entry: Path
    """The path of ``entry``, in the file's folder."""
    virtual_type: str
    """The value of ``virtual_type``: an engine, or ``module:Class``."""
    inputs: tuple[Port, ...]
    """The input ports."""
    outputs: tuple[Port, ...]
    """The output ports."""
    config: Mapping[str, Any]
    """The section ``[config]``."""
    common: Mapping[str, Any]
    """The common arguments of `FlowUnitSpec`: name, description, ..."""
    find_class: Callable[[], object] | None = None
    """Imports and returns the class ``module:Class`` that ``virtual_type`` names."""
    modules: tuple[str, ...] = ()
    """The modules outside of the file's folder that ``virtual_type`` names."""


_NAME = re.compile(r"[A-Za-z_][\w.\-]*\Z")
# Types of ports without NumPy arrays, or with arrays of objects only.
_NOT_OF_NUMPY = ("bfloat16", "string")


@dataclass(frozen=True)
class FlowUnitSpec:
    """The description of a flow unit, which lets graphs be checked before a unit runs.

    Attributes:
        name: The name in ``flowunit=``.
        devices: Device kind -> the class, a callable that makes an instance, or the text
            ``"package.module:Class"``. The text is imported when a graph first names that device.
        inputs, outputs: The ports, in order. No inputs: a source. No outputs: a sink.
        options: A dataclass (fields made with `option`), or a tuple of `Option`.
        kind: See `Kind`. Without inputs `Normal` means `Source`.
        description: One sentence; its first line is shown in lists.
        aliases: Other names that graphs may use.
        version: ``x.y.z``.
        group: A heading for lists ("Image", "Input").
        batch_size: The default of the node attribute. None: the default of the kind, 8 for normal
            units and sources, else 1. A condition with a value of more than 1 is called with
            batches. Each output list is then as long as the batch, with None for a buffer that
            leaves by another output.
        max_batch_size: The maximum number of buffers in a call, or None for no limit.
        threads: The default of the node attribute. None: the plan chooses.
        is_shared: Whether a node has one re-entrant instance, instead of one for each worker.
        is_compute_bound: Whether calls only compute. They wait for no network, disk or other
            thread, and need no thread of their own. Neighbours may then run as one stage. Any
            thread may make the calls, regardless of `FlowUnit.is_any_thread`.
        is_one_by_one: Whether a call on the CPU works on its rows one after the other. Then more
            rows in a call only save the cost of calls. Slow rows get a call each, and leave when
            they are done.
        hands_over_arrays: Whether the arrays that the unit emits are new. The unit keeps no
            reference to them or to their memory, and emits none twice. It takes none out of a list
            or dict of its input. Then the only consumer may write to the array. Otherwise a
            consumer with the port ``is_in_place`` gets a copy, and a result is read-only.
        is_exception_visible: Whether the unit can handle buffers with an error (`Buffer.error`).
        is_exception_given: Whether the unit gets buffers with an error even if its node does not
            ask for them (ModelBox's rule).
        is_type_checked: Whether an array of another type than a port declares is an error of its
            item, on inputs and outputs. Units of the kind `Stream` are not checked. Units in
            folders are not checked either, because their files declare more than they mean.
        refuses_with: Exceptions of this class mean, like `BadRequest`, that the data was refused,
            not that the unit failed. A server answers 400, with the message.
        inherits_meta: Whether a value in the place of an input inherits the input's meta.
        accepts_any_option: Whether undeclared options are passed on unchanged.
        required_files: Files that must exist before the unit can run (a model).
        requires: Module that must be installed before the unit can run -> the extra of modelflow
            with the module. If options decide, a function from the options to this mapping.
        modules: The user's modules, by their full names, that the unit imports by itself.
        location: The location of the declaration, for messages.
        notes: Notes of ``modelflow check`` about a node that runs this unit.
        advise: Returns advice of ``modelflow check`` about the place of the unit in a graph; see
            `modelflow.unit.advice`.
    """

    name: str
    devices: Mapping[str, "str | Callable[[], FlowUnit]"]
    inputs: tuple[Port, ...] = ()
    outputs: tuple[Port, ...] = ()
    options: "type[Any] | tuple[Option, ...]" = ()
    kind: Kind = Normal()
    description: str = ""
    aliases: tuple[str, ...] = ()
    version: str = "1.0.0"
    group: str = "Generic"
    batch_size: int | None = None
    max_batch_size: int | None = None
    threads: int | None = None
    is_shared: bool = False
    is_compute_bound: bool = False
    is_one_by_one: bool = False
    hands_over_arrays: bool = False
    is_exception_visible: bool = False
    is_exception_given: bool = False
    is_type_checked: bool = True
    refuses_with: type[Exception] = BadRequest
    inherits_meta: bool = True
    accepts_any_option: bool = False
    required_files: tuple[Path, ...] = ()
    requires: Mapping[str, str] | Callable[[Any], Mapping[str, str]] = field(default_factory=dict)
    modules: tuple[str, ...] = ()
    location: Location | None = None
    notes: tuple[str, ...] = ()
    advise: Advise | None = None

    def __post_init__(self) -> None:
        """Checks the description itself.

        Raises:
            ConfigError: The name is bad, no device is given, a port or option is declared twice, or
                the kind does not have such ports.
        """
        if not _NAME.match(self.name):
            expected = "a name of letters, digits, '_', '-' and '.', beginning with a letter"
            self._refuse(f"expected {expected}")
        if not self.devices:
            self._refuse("got no device; expected one at least, such as cpu")
        self._check_ports()
        object.__setattr__(self, "devices", MappingProxyType(dict(self.devices)))
        for what, names in (
            ("input", self.input_names),
            ("output", self.output_names),
            ("option", [name for o in self.option_list for name in (o.name, *o.aliases)]),
        ):
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                self._refuse(f"{what} {twice[0]!r} is declared twice")
        self._check_values()

    def _refuse(self, text: str) -> NoReturn:
        message, at = f"flow unit {self.name!r}: {text}", self.location
        raise ConfigError([Finding(at, message, error=ConfigError)] if at else message)

    def _check_values(self) -> None:
        for name in ("batch_size", "max_batch_size", "threads"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < 1):
                expected = "a whole number of at least 1, or None"
                self._refuse(f"{name}: got {value!r}; expected {expected}")
        for name in _FLAGS:
            value = getattr(self, name)
            if not isinstance(value, bool):
                self._refuse(f"{name}: got {value!r}; expected True or False")
        if not self.is_type_checked:
            return
        for what, ports in (("input", self.inputs), ("output", self.outputs)):
            for port in ports:
                if port.tensor is None and port.dtype not in (None, *_NOT_OF_NUMPY):
                    text = (
                        f"{what} {port.name!r}: got the type {port.dtype!r}; expected a type of "
                        f"arrays: {', '.join(ARRAY_TYPES)}"
                        f"{did_you_mean(str(port.dtype), ARRAY_TYPES)}"
                    )
                    self._refuse(text)

    def _check_ports(self) -> None:
        if type(self.kind) not in KIND_TYPES:
            expected = ", ".join(f"{kind.__name__}()" for kind in KIND_TYPES)
            self._refuse(f"got kind={self.kind!r}; expected one of {expected}")
        if not self.inputs and self.kind == Normal():
            object.__setattr__(self, "kind", Source())
        kind = f"a unit of the kind '{self.kind}' has"
        if isinstance(self.kind, Source) and self.inputs:
            self._refuse(f"got {len(self.inputs)} inputs; {kind} none")
        if not (isinstance(self.kind, Source) or self.inputs):
            self._refuse(f"got no input; {kind} at least one (without inputs: kind=Source())")
        if len(self.outputs) < self.kind.least_outputs:
            least = self.kind.least_outputs
            self._refuse(f"got {len(self.outputs)} outputs; {kind} at least {least}")

    @cached_property
    def input_names(self) -> tuple[str, ...]:
        """The names of the inputs, in order."""
        return tuple(port.name for port in self.inputs)

    @cached_property
    def output_names(self) -> tuple[str, ...]:
        """The names of the outputs, in order."""
        return tuple(port.name for port in self.outputs)

    @cached_property
    def option_list(self) -> tuple[Option, ...]:
        """The options, including the fields of an options dataclass."""
        return self.options if isinstance(self.options, tuple) else options_of(self.options)

    @cached_property
    def options_by_name(self) -> Mapping[str, Option]:
        """The options by name and by alias."""
        return {name: o for o in self.option_list for name in (o.name, *o.aliases)}

    @property
    def is_source(self) -> bool:
        """Tells whether the unit has no inputs, and produces buffers until its own end."""
        return not self.inputs

    @property
    def is_sink(self) -> bool:
        """Tells whether the unit has no outputs."""
        return not self.outputs

    def unknown_options(
        self, given: Mapping[str, Any], also: Collection[str] = ()
    ) -> dict[str, str]:
        """Returns a message for each option that the unit does not have.

        Args:
            given: The options by name or alias.
            also: Other names that are allowed in the same place, for suggestions.
        """
        known = self.options_by_name
        if self.accepts_any_option or given.keys() <= known.keys():
            return {}
        expected = ", ".join(option.name for option in self.option_list) or "none"
        return {
            name: f"unknown option {name!r} of unit {self.name!r}"
            f"{did_you_mean(name, [*known, *also])} (options: {expected})"
            for name in given
            if name not in known
        }

    def list_required_modules(self, config: Any) -> Mapping[str, str]:
        """Returns the modules that the unit needs -> the extra of modelflow with the module.

        Args:
            config: The options, as `configure` returns them, or None if they are wrong.
        """
        if isinstance(self.requires, Mapping):
            return self.requires
        return {} if config is None else self.requires(config)

    def configure(self, given: Mapping[str, Any], also: Collection[str] = ()) -> Any:
        """Converts the options of a node and adds the defaults.

        Args:
            given: The options by name or alias.
            also: Other names that are allowed in the same place, for suggestions.

        Returns:
            An instance of the options dataclass, or a `Config` without such a class.

        Raises:
            OptionsError: Options are unknown, missing, or have a value of another form; the error
                lists all.
        """
        known = self.options_by_name
        values: dict[str, Any] = {}
        problems = list(self.unknown_options(given, also).values())
        for name, value in given.items():
            if name in known:
                try:
                    values[known[name].name] = known[name].convert(value)
                except ConfigError as error:
                    problems.append(str(error))
            elif self.accepts_any_option:
                values[name] = value
        written = {known[name].name for name in given if name in known}
        absent = [option for option in self.option_list if option.name not in written]
        problems += [
            f"option {option.name!r} of unit {self.name!r} is required"
            for option in absent
            if option.default is REQUIRED
        ]
        values |= {option.name: option.default for option in absent}
        if problems:
            raise OptionsError(problems)
        if isinstance(self.options, tuple):
            return Config(values)
        try:
            return self.options(**values)
        except ValueError as error:  # the dataclass's own check of several options together
            raise OptionsError([f"options of unit {self.name!r}: {error}"]) from error

    def load(self, device: str) -> ModuleType | None:
        """Imports the module of the unit for ``device`` before `create`.

        Returns:
            The module, or None if the factory needs none or has imported it already.

        Raises:
            Exception: Any exception of the module.
        """
        target = self.devices[device]
        if isinstance(target, str):
            return importlib.import_module(target.partition(":")[0])
        load: Callable[[], ModuleType] | None = getattr(target, "load", None)
        return None if load is None else load()

    def create(self, device: str) -> "FlowUnit":
        """Makes an instance for ``device`` (a kind, ``"cpu"``), and imports its module if
        necessary.

        Raises:
            MissingDependencyError: A package that the unit's module imports is not installed.
        """
        unit = factory_of(self.devices[device])()
        unit.spec = self
        return unit


# "no" would count as true.
_FLAGS = tuple(field.name for field in fields(FlowUnitSpec) if field.type is bool)


def factory_of(target: "str | Callable[[], FlowUnit]") -> "Callable[[], FlowUnit]":
    """Returns the factory of instances: ``target``, or the object with the path in ``target``.

    Raises:
        ImportError: The module cannot be imported.
    """
    factory: Callable[[], FlowUnit]
    factory = pkgutil.resolve_name(target) if isinstance(target, str) else target
    return factory
