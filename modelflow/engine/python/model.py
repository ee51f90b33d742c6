"""The class `PythonModel`, for models that no engine reads."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from modelflow.errors import EngineError
from modelflow.unit.port import Port
from modelflow.unit.spec import DECLARED_TYPES
from modelflow.wire.tensor import TensorSpec


class PythonModel(ABC):
    """A model that Python code loads and runs, for files that no engine reads.

    ::

        class Iris(modelflow.PythonModel):
            inputs = (modelflow.Port("measures", dtype="float32", shape="(4,)"),)
            outputs = (modelflow.Port("kind", dtype="string", shape="()"),)

            def load(self, path, device):
                self.classifier = joblib.load(path)

            def predict(self, measures):
                return self.classifier.predict(measures)

    The text ``"module:Iris"`` names the class wherever the name of an engine is accepted. Batches,
    warm-up, versions and serving are the same as for engines. Import heavy packages in `load`.

    Attributes:
        inputs: The input ports with the type and the shape of one item. A name in a shape is any
            length, and no shape is any shape. The type of text is ``"string"``.
        outputs: The output ports, in the same form.
        devices: The kinds of device on which `load` can put the model.
        text_type: The type of the elements of text inputs: ``str``, or ``bytes`` for any bytes.
        is_thread_safe: True if several threads may call `predict` at once. Otherwise one batch runs
            at a time.
        keeps_outputs: False if `predict` keeps no reference to the arrays that it returns, or to
            their memory. Otherwise they are copied.
    """

    inputs: ClassVar[tuple[Port, ...]] = ()
    outputs: ClassVar[tuple[Port, ...]] = ()
    devices: ClassVar[tuple[str, ...]] = ("cpu",)
    text_type: ClassVar[type[bytes | str]] = str
    is_thread_safe: ClassVar[bool] = False
    keeps_outputs: ClassVar[bool] = True

    @abstractmethod
    def load(self, path: Path, device: str) -> None:
        """Loads the model, once for each node and device.

        Args:
            path: The model's file or folder, for the version that is loaded.
            device: ``cpu``, or a device of `devices` with its number: ``cuda:0``.
        """

    @abstractmethod
    def predict(self, batch: Any) -> Any:
        """Runs one batch.

        Args:
            batch: The array of the input, or ``{input: array}`` if there are several. Axis 0 of
                each array is the batch. Text is an array of objects of `text_type`. The arrays
                belong to this call, which may write to them.

        Returns:
            An array or list with a row for each row of the batch, or ``{output: rows}``. Several
            outputs need the second form.

        Raises:
            ValueError: The model refuses a row. A server answers 400 with the message. After any
                exception the batch is tried again in halves, so the other rows succeed.
        """

    def close(self) -> None:  # noqa: B027 - most models need no end
        """Frees the model. No `predict` is active, and none follows."""


def read_ports(model: type[PythonModel], side: Literal["inputs", "outputs"]) -> list[TensorSpec]:
    """Returns the ports of a class as `TensorSpec` values, with the batch as axis 0.

    Raises:
        EngineError: The class declares no port, two of one name, or a port without a type or with
            another shape.
    """
    ports = getattr(model, side)
    where = f"{model.__module__}:{model.__qualname__}.{side}"
    if not isinstance(ports, list | tuple) or not ports or not _are_ports(ports):
        raise EngineError(f"{where}: got {ports!r}; expected a tuple of ports: {_EXAMPLE}")
    names = [port.name for port in ports]
    for name in names:
        if names.count(name) > 1:
            raise EngineError(f"{where}: got two ports {name!r}; expected different names")
    return [_read_port(where, port) for port in ports]


_EXAMPLE = "(modelflow.Port('x', dtype='float32', shape='(4,)'),)"


def _are_ports(ports: Sequence[object]) -> bool:
    return all(isinstance(port, Port) for port in ports)


def _read_port(where: str, port: Port) -> TensorSpec:
    dtype = DECLARED_TYPES.get(port.dtype or "", port.dtype)
    tensor = replace(port, dtype=dtype).tensor
    if tensor is None:
        expected = "a type such as 'float32', or 'string' for text"
        raise EngineError(f"{where}: port {port.name!r}: got dtype={dtype!r}; expected {expected}")
    if tensor.shape is None:
        if port.shape is not None:
            expected = "the axes of one item such as '(4,)' or '(height, width, 3)', or '()'"
            raise EngineError(
                f"{where}: port {port.name!r}: got shape={port.shape!r}; expected {expected}"
            )
        return replace(tensor, is_batched=True)
    return replace(tensor, shape=(None, *tensor.shape), is_batched=True)
