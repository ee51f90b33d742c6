"""The contract of an engine: one class loads a model, describes its ports and runs a batch.

To add an engine: subclass `Engine` and `LoadedModel` and name the `Engine` class in the entry
point group ``modelflow.engines`` (``NAME = "package.module:Class"``). An engine of modelflow's own
stands in the table of ``lookup.py`` instead. The module imports its heavy
package in `Engine.load` at the earliest, and raises `MissingDependencyError` where it is absent.
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
    """The loads of one version of a model: an engine opens once what several of them need.

    Whoever loads a version makes a group and gives it to each load. A reload has a group of its own
    and shares nothing with what it replaces. The models own what they share: the last that releases
    it closes it. Safe from any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shared: dict[Hashable, tuple[object, int]] = {}

    def acquire(self, key: Hashable, load: Callable[[], T]) -> T:
        """Returns what another model of the group has loaded, or loads it.

        Args:
            key: What it is; the same key always stands for the same type.
            load: Loads it. What it raises is raised here, and nothing is kept.
        """
        with self._lock:  # a second model waits for the load of the first
            value, users = self._shared.get(key) or (load(), 0)
            self._shared[key] = value, users + 1
            return value  # type: ignore[return-value] # the key says the type

    def release(self, key: Hashable) -> bool:
        """Gives back what `acquire` has returned; tells whether that was its last user."""
        with self._lock:
            value, users = self._shared.pop(key)
            if users > 1:
                self._shared[key] = value, users - 1
            return users == 1


Arrays = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """What an engine is asked to load.

    Attributes:
        path: The model's file or folder; it exists.
        device: Where it shall run.
        options: The options of the node: an instance of the engine's `Engine.options`.
        inputs, outputs: The ports that the unit declares; empty: all that the model has.
        types: Input -> the type that the unit declares, for models that do not say it.
        batch_sizes: The sizes of batch that `LoadedModel.run` will get, where they are few.
        group: What the model may share with other signatures of it; None: it is loaded alone.
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
        memory: Where `run` wants its inputs, and leaves its outputs.
        warm_up_runs: How often a batch must run before the next is as fast as all that follow.
        batch_range: The smallest and the largest batch that it takes; None: no largest one.
        text_type: What the elements of text inputs are: ``bytes`` (UTF-8), or ``str``.
        is_stateful: A call changes what later calls give: none is made for nothing (a warm-up).
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    memory: Device = CPU
    warm_up_runs: int = 1
    batch_range: tuple[int, int | None] = (1, None)
    text_type: type[bytes | str] = bytes
    is_stateful: bool = False

    @property
    def fixed_batch(self) -> int | None:
        """The only batch size that the model takes; None: any within `batch_range`."""
        sizes = {size for tensor in self.inputs if (size := tensor.batch_size) is not None}
        return max(sizes, default=None)

    @abstractmethod
    def run(self, inputs: Arrays) -> dict[str, npt.NDArray[Any]]:
        """Runs one batch; called by several threads at once.

        Args:
            inputs: Input port -> C-contiguous array of the port's dtype in `memory`, axis 0 the
                batch; the value itself where the port has no batch axis. It belongs to the caller,
                who reuses it after the call; it is not to be written to, as it may be the memory of
                the items themselves.

        Returns:
            Output port -> array. The caller copies one that shares memory with an input, or that
            the model still refers to (its own buffer, which the next call writes to).

        Raises:
            ItemRefusedError: the model does not take these inputs: their shape or their values are
                to blame. A server answers 400 with the text, which names no path.
            EngineError: the engine failed: memory, device. A server answers 500 without the text.
        """

    @abstractmethod
    def close(self) -> None:
        """Frees the model. No `run` is under way, and none follows."""


class Engine(ABC):
    """A library that runs models. One instance serves the whole process; it keeps no model.

    Attributes:
        suffixes: The file name endings, in lower case, that mean a model of this engine.
        device_kinds: The kinds of device that it can run on.
        options: The dataclass of its options, built on `InferenceOptions`.
        requires: Modules that it needs -> the extra of modelflow that brings each.
    """

    suffixes: ClassVar[tuple[str, ...]] = ()
    device_kinds: ClassVar[tuple[str, ...]] = ("cpu",)
    options: ClassVar[type[InferenceOptions]] = InferenceOptions
    requires: ClassVar[Mapping[str, str]] = {}

    def is_reader_of(self, path: Path) -> bool:
        """Tells whether ``path`` looks like a model of this engine. Loads nothing."""
        return path.suffix.lower() in self.suffixes and path.is_file()

    def signatures(self, path: Path) -> Mapping[str, str]:  # noqa: ARG002 - most have one way
        """Returns the ways in which a model can be called (``options.signature``), by name.

        Returns:
            Name -> kind: ``tensorflow/serving/classify``, ...; empty: there is only one way.

        Raises:
            EngineError: it is no model of this engine.
            MissingDependencyError: the engine's package is not installed.
        """
        return {}

    def tensor_names(self, path: Path, signature: str) -> Mapping[str, str]:  # noqa: ARG002 - most have no others
        """Returns what the model's file calls the tensors of a signature; empty: as the ports.

        Args:
            path: The model.
            signature: One of `signatures`.

        Returns:
            Port -> ``"serving_default_x:0"``.

        Raises:
            EngineError: it is no model of this engine.
            MissingDependencyError: the engine's package is not installed.
        """
        return {}

    @abstractmethod
    def load(self, request: LoadRequest) -> LoadedModel:
        """Loads a model and checks that it has the ports that are asked for.

        Raises:
            EngineError: the file is no model of this engine, or has no port of that name.
            MissingDependencyError: the engine's package is not installed.
        """

    def describe(self, request: LoadRequest) -> tuple[Sequence[TensorSpec], Sequence[TensorSpec]]:
        """Returns the inputs and outputs of a model; loads it where there is no lighter way.

        Raises:
            EngineError: the file is no model of this engine.
            MissingDependencyError: the engine's package is not installed.
        """
        model = self.load(request)
        model.close()
        return model.inputs, model.outputs


def import_package(name: str, engine: str) -> Any:
    """Returns the package of an engine, imported; the extra that brings it is called as the engine.

    Raises:
        MissingDependencyError: it is not installed.
        EngineError: it is installed and cannot be imported.
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
    """Returns the lines of a library's error as one, cut where it becomes a listing."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    joined = " ".join(lines) or "no message"
    return joined if len(joined) <= 300 else joined[:297] + "..."


def model_error(path: Path, text: str) -> EngineError:
    """Returns the error that says what is wrong with a model."""
    return EngineError(f"model {path}: {text}")


def unit_error(name: str, text: str) -> EngineError:
    """Returns the error that says what is wrong with an inference unit."""
    return EngineError(f"unit {name!r}: {text}")


def late_setting_error(running: object, setting: str, what: str, library: str) -> EngineError:
    """Returns the error about a setting of the process that a library has started without.

    Args:
        running: What it has started with.
        setting: The setting, and what is wanted.
        what: What kind of thing that is.
        library: The library.
    """
    return EngineError(
        f"{setting}, but {library} has already started in this process with {running}; the {what} "
        "holds for the process: give all its nodes the same, before anything else uses "
        f"{library}"
    )


def absent_gpu(
    device: Device, library: str, count: int, *, has_cuda: bool
) -> DeviceUnavailableError:
    """Returns the error about a GPU that a library does not see."""
    reason = "" if has_cuda else "; this build is for the CPU only"
    return DeviceUnavailableError(f"device {device}: {library} sees {count} GPUs{reason}")


def refuse_closed(*_: object) -> Any:
    """Stands in the place of what ran a model that is closed.

    Raises:
        EngineError: always.
    """
    raise EngineError("the model is closed")


def unknown_port(path: Path, what: str, name: str, known: Sequence[object]) -> EngineError:
    """Returns the error about a port that the model does not have.

    Args:
        path: The model.
        what: ``input`` or ``output``.
        name: The name that was asked for.
        known: The model's own ports, as they are to be listed (`TensorSpec` or text).
    """
    near, listed = did_you_mean(name, map(_name_of, known)), ", ".join(map(str, known)) or "none"
    return model_error(path, f"no {what} {name!r}{near}; the model's {what}s are: {listed}")


def check_ports(path: Path, what: str, names: Iterable[str], known: Sequence[object]) -> None:
    """Checks that a model has the ports that are asked for; see `unknown_port`.

    Raises:
        EngineError: it has not.
    """
    own = set(map(_name_of, known))
    for name in names:
        if name not in own:
            raise unknown_port(path, what, name, known)


def require_fed(path: Path, names: Collection[str | None], known: Sequence[object]) -> None:
    """Checks that all inputs of a model are among some names.

    Raises:
        EngineError: one is not.
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
