"""The contract of an engine: one class loads a model, describes its ports and runs a batch.

To add an engine, subclass `Engine` and `LoadedModel`. Name the `Engine` class in the entry point
group ``modelflow.engines`` (``NAME = "package.module:Class"``). The built-in engines are listed in
the table of ``lookup.py`` instead. The module of an engine imports its heavy package in
`Engine.load` at the earliest. It raises `MissingDependencyError` if the package is not installed.
"""

import importlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from modelflow.device import CPU, Device
from modelflow.engine.options import InferenceOptions
from modelflow.errors import (
    DeviceUnavailableError,
    EngineError,
    MissingDependencyError,
    did_you_mean,
)
from modelflow.wire.tensor import TensorSpec

T = TypeVar("T")


class LoadGroup:
    """The loads of one model version, which share resources: an engine opens each resource once.

    The caller that loads a version makes a group and passes it to each load. A reload makes a new
    group and shares nothing with the replaced models. The models own the shared values: the last
    model that releases a value closes it. Safe from any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shared: dict[Hashable, tuple[object, int]] = {}

    def acquire(self, key: Hashable, load: Callable[[], T]) -> T:
        """Returns the value that another model of the group has loaded, or loads the value.

        Args:
            key: The identity of the value. The same key always means the same type.
            load: Loads the value. Its exceptions are raised here, and nothing is stored.
        """
        with self._lock:  # a second model waits for the load of the first
            value, users = self._shared.get(key) or (load(), 0)
            self._shared[key] = value, users + 1
            return value  # type: ignore[return-value] # the key says the type

    def release(self, key: Hashable) -> bool:
        """Releases a value of `acquire`, and returns True if the caller was its last user."""
        with self._lock:
            value, users = self._shared.pop(key)
            if users > 1:
                self._shared[key] = value, users - 1
            return users == 1


Arrays = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """The order to an engine to load a model.

    Attributes:
        path: The model's file or folder, which exists.
        device: The device to run on.
        options: The options of the node: an instance of the engine's `Engine.options`.
        inputs, outputs: The ports that the unit declares. Empty for all ports of the model.
        types: Input -> the type that the unit declares, for models that do not state the type.
        batch_sizes: The batch sizes of `LoadedModel.run`. Empty if there are many.
        group: The group of loads that share resources: the other signatures of the same model. None
            if the model shares nothing.
    """

    path: Path
    device: Device = CPU
    options: Any = field(default_factory=InferenceOptions)
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    types: Mapping[str, np.dtype[Any]] = field(default_factory=dict)
    batch_sizes: tuple[int, ...] = ()
    group: LoadGroup | None = None


class LoadedModel(ABC):
    """A model in memory, ready to run on its device.

    Attributes:
        inputs, outputs: The ports, by the names and in the order of the `LoadRequest`.
        memory: The device memory that holds the inputs and outputs of `run`.
        warm_up_runs: The number of runs of one batch size before the next run reaches full speed.
        batch_range: The smallest and the largest batch that the model takes. None for no largest.
        text_type: The type of the elements of text inputs: ``bytes`` (UTF-8), or ``str``.
        is_stateful: True if a call changes the results of later calls. Such a model gets no warm-up
            with made-up inputs.
        keeps_outputs: False if the model keeps no reference to the arrays that `run` returns, or
            to their memory. Otherwise they are copied.
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    memory: Device = CPU
    warm_up_runs: int = 1
    batch_range: tuple[int, int | None] = (1, None)
    text_type: type[bytes | str] = bytes
    is_stateful: bool = False
    keeps_outputs: bool = True

    @property
    def fixed_batch(self) -> int | None:
        """The only batch size that the model takes. None if it takes any size in `batch_range`."""
        sizes = {size for tensor in self.inputs if (size := tensor.batch_size) is not None}
        return max(sizes, default=None)

    @abstractmethod
    def run(self, inputs: Arrays) -> dict[str, npt.NDArray[Any]]:
        """Runs one batch. Several threads call this method at once.

        Args:
            inputs: Input port -> C-contiguous array of the port's dtype in `memory`. Axis 0 is the
                batch. A port without batch axis gets the value itself. The caller owns the arrays
                and reuses them after the call. The model must not write to them, because they may
                be the memory of the items.

        Returns:
            Output port -> array. The caller copies an array that shares memory with an input. It
            copies all arrays of a model that may still refer to them (`keeps_outputs`), because the
            next call may overwrite them.

        Raises:
            ItemRefusedError: The model does not take these inputs, because of their shape or
                values. A server answers 400 with the text, which contains no path.
            EngineError: The engine failed, for example for lack of memory. A server answers 500
                without the text.
        """

    @abstractmethod
    def close(self) -> None:
        """Frees the model. No `run` is active, and none follows."""


class Engine(ABC):
    """A library that runs models. One instance serves the whole process and stores no model.

    Attributes:
        suffixes: The file name endings, in lower case, of the models of this engine.
        device_kinds: The kinds of device that the engine can run on.
        options: The dataclass of the engine's options, derived from `InferenceOptions`.
        requires: Module that the engine needs -> the extra of modelflow that installs it.
    """

    suffixes: ClassVar[tuple[str, ...]] = ()
    device_kinds: ClassVar[tuple[str, ...]] = ("cpu",)
    options: ClassVar[type[InferenceOptions]] = InferenceOptions
    requires: ClassVar[Mapping[str, str]] = {}

    def is_reader_of(self, path: Path) -> bool:
        """Returns True if ``path`` looks like a model of this engine, without loading the model."""
        return path.suffix.lower() in self.suffixes and path.is_file()

    def signatures(self, path: Path) -> Mapping[str, str]:  # noqa: ARG002 - most have one way
        """Returns the signatures of a model (``options.signature``): the ways to call the model.

        Returns:
            Name -> kind, such as ``tensorflow/serving/classify``. Empty if there is only one way.

        Raises:
            EngineError: The file is no model of this engine.
            MissingDependencyError: the engine's package is not installed.
        """
        return {}

    def tensor_names(self, path: Path, signature: str) -> Mapping[str, str]:  # noqa: ARG002 - most have no others
        """Returns the names of a signature's tensors in the model's file.

        Args:
            path: The model.
            signature: One of `signatures`.

        Returns:
            Port -> ``"serving_default_x:0"``. Empty if the tensors have the names of the ports.

        Raises:
            EngineError: The file is no model of this engine.
            MissingDependencyError: the engine's package is not installed.
        """
        return {}

    @abstractmethod
    def load(self, request: LoadRequest) -> LoadedModel:
        """Loads a model and checks that the model has the requested ports.

        Raises:
            EngineError: The file is no model of this engine, or has no port of that name.
            MissingDependencyError: the engine's package is not installed.
        """

    def describe(self, request: LoadRequest) -> tuple[Sequence[TensorSpec], Sequence[TensorSpec]]:
        """Returns the inputs and outputs of a model, and loads the model if no cheaper way exists.

        Raises:
            EngineError: The file is no model of this engine.
            MissingDependencyError: the engine's package is not installed.
        """
        model = self.load(request)
        model.close()
        return model.inputs, model.outputs


def import_package(name: str, engine: str) -> Any:
    """Imports the package of an engine.

    The extra of modelflow that installs the package has the name of the engine.

    Raises:
        MissingDependencyError: The package is not installed.
        EngineError: The package is installed and cannot be imported.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) and error.name == name:
            raise MissingDependencyError(name, engine, f"engine {engine!r}") from error
        raise EngineError(
            f"engine {engine!r}: the package is there but cannot be imported: {error}"
        ) from error


def one_sentence(text: str) -> str:
    """Joins the lines of a library's error to one line, cut to 300 characters."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    joined = " ".join(lines) or "no message"
    return joined if len(joined) <= 300 else joined[:297] + "..."


def model_error(path: Path, text: str) -> EngineError:
    """Returns an error about a model."""
    return EngineError(f"model {path}: {text}")


def unit_error(name: str, text: str) -> EngineError:
    """Returns an error about an inference unit."""
    return EngineError(f"unit {name!r}: {text}")


def late_setting_error(running: object, setting: str, what: str, library: str) -> EngineError:
    """Returns an error about a process-wide setting that differs from a library's current setting.

    Args:
        running: The setting that the library has started with.
        setting: The name and the wanted value of the setting.
        what: The kind of the setting, such as ``"limit"``.
        library: The name of the library.
    """
    return EngineError(
        f"{setting}, but {library} has already started in this process with {running}. The {what} "
        "holds for the whole process: give all its nodes the same before anything else uses "
        f"{library}"
    )


def absent_gpu(
    device: Device, library: str, count: int, *, has_cuda: bool
) -> DeviceUnavailableError:
    """Returns the error about a GPU that a library does not see."""
    reason = "" if has_cuda else "; this build is for the CPU only"
    return DeviceUnavailableError(f"device {device}: {library} sees {count} GPUs{reason}")


def refuse_closed(*_: object) -> Any:
    """Takes the place of the run method of a closed model.

    Raises:
        EngineError: Always.
    """
    raise EngineError("the model is closed")


def unknown_port(path: Path, what: str, name: str, known: Sequence[object]) -> EngineError:
    """Returns the error about a port that the model does not have.

    Args:
        path: The model.
        what: ``input`` or ``output``.
        name: The requested name.
        known: The model's own ports, in the form to list them (`TensorSpec` or text).
    """
    near, listed = did_you_mean(name, map(_name_of, known)), ", ".join(map(str, known)) or "none"
    return model_error(path, f"no {what} {name!r}{near}; the model's {what}s are: {listed}")


def check_ports(path: Path, what: str, names: Iterable[str], known: Sequence[object]) -> None:
    """Checks that a model has the requested ports.

    Raises:
        EngineError: The model lacks a port; see `unknown_port`.
    """
    own = set(map(_name_of, known))
    for name in names:
        if name not in own:
            raise unknown_port(path, what, name, known)


def require_fed(path: Path, names: Collection[str | None], known: Sequence[object]) -> None:
    """Checks that the given names include all inputs of a model.

    Raises:
        EngineError: An input is missing.
    """
    absent = [port for port in known if _name_of(port) not in names]
    if absent:
        raise model_error(
            path,
            f"its input {absent[0]} is fed by no port; declare an input for each: "
            f"{', '.join(map(str, known))}",
        )


def _name_of(port: object) -> str:
    return str(getattr(port, "name", port))
