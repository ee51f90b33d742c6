"""A kind of model: its ports, its computation in each engine, and its requests."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["ENGINES", "Kind", "Port"]

ENGINES = (
    "onnx",
    "openvino",
    "tensorflow",
    "torch script",
    "torch export",
    "plug-in",
    "python class",
)
# The field with the body of an engine's models, where it is not the engine's own name.
BODIES = {"openvino": "onnx", "plug-in": "plug_in", "python": "plug_in"}


@dataclass(frozen=True)
class Port:
    """An input or output.

    Attributes:
        dtype: NumPy's name of the element type; ``object`` is text.
        shape: None as a length means any length. None as a whole means any number of axes.
        is_batched: Axis 0 is the batch; else the array is one request's value.
    """

    dtype: str = "float32"
    shape: tuple[int | None, ...] | None = (None, 3)
    is_batched: bool = True


@dataclass(frozen=True)
class Kind:
    """A row of the table.

    Attributes:
        rows: The requests of clients, as items by input.
        inputs, outputs: The ports by name, in order.
        onnx: Nodes as ``(operator, inputs, outputs, attributes)``, or None if ONNX lacks the kind.
            OpenVINO's models are converted from them.
        constants: Arrays that the nodes name.
        tensorflow: From TensorFlow and a ``tf.Module`` to the function, or None if TensorFlow lacks
            the kind.
        torch: A class of module, or None if PyTorch lacks the kind.
        plug_in: From the inputs to the output or a dict of outputs, for a plug-in and a Python
            class. A class is instantiated for each model.
        without: Forms and entrances that lack the kind, with the reason.
        errors: The place of a rejected row -> words of the message, in each engine that rejects the
            row.
        is_narrow: In PyTorch its numbers are bfloat16, which enter and leave as float32.
        most: The largest batch that the model takes.
        signature: The requested signature of a SavedModel with several.
        is_joined: Rows of several clients may be in one call.
    """

    rows: Sequence[Mapping[str, Any]]
    inputs: Mapping[str, Port] = field(default_factory=lambda: {"x": Port()})
    outputs: Mapping[str, Port] = field(default_factory=lambda: {"output": Port()})
    onnx: Sequence[tuple[str, list[str], list[str], Mapping[str, Any]]] | None = None
    constants: Mapping[str, Any] = field(default_factory=dict)
    tensorflow: Callable[[Any, Any], Callable[..., Any]] | None = None
    torch: type | None = None
    plug_in: Callable[..., Any] | None = None
    without: Mapping[str, str] = field(default_factory=dict)
    errors: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    is_narrow: bool = False
    most: int | None = None
    signature: str = ""
    is_joined: bool = True

    def is_had_by(self, engine: str) -> bool:
        """Returns whether an engine has such models."""
        if engine == "python class" and not self._has_rows_only:
            return False
        first = engine.split()[0]
        body = getattr(self, BODIES.get(first, first))
        return body is not None and engine not in self.without

    @property
    def _has_rows_only(self) -> bool:
        """Whether all ports have a free batch axis, as the ports of a `PythonModel` have."""
        ports = (*self.inputs.values(), *self.outputs.values())
        is_free = (p.is_batched and (p.shape is None or p.shape[0] is None) for p in ports)
        return bool(self.inputs) and self.most is None and all(is_free)

    def words(self, engine: str, place: int) -> str:
        """Returns words of the expected error of a row, or an empty text if the row succeeds."""
        return self.errors.get(place, {}).get(engine.split()[0], "")
