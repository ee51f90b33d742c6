"""One item on an edge of the graph: data, meta, and possibly an error."""

import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from modelflow.device import CPU, Device, device_memories, memory_of, require_devices
from modelflow.errors import FlowUnitError, MissingDependencyError
from modelflow.pixels import SIZE_KEYS, image_of, size_of

if TYPE_CHECKING:
    from PIL.Image import Image

# The largest picture in a notebook, in pixels.
_SHOWN = (512, 512)
_SIZES = frozenset(SIZE_KEYS)


class Buffer:
    """One item: ``data`` with its ``meta``, or an ``error`` in its place.

    Data is any Python object: a NumPy array, bytes, str, a tensor on a device. It is not copied on
    its way. NumPy arrays that flow units receive are read-only; arrays and tensors that an input
    declared ``is_in_place`` receives may be written. All else, lists and dicts too, is shared as it
    is: a unit that changes such data changes it for everybody.

    For images, ``meta`` holds ``pix_fmt layout``, and `get` knows ``width height channel
    width_stride height_stride``, which follow from the array; for frames ``meta`` holds also
    ``index timestamp rate_num rate_den``.

    A buffer is not to be changed by two threads at once; reading is safe from any.
    """

    __slots__ = (
        "_deadline",
        "_fence",
        "_is_exclusive",
        "_is_meta_shared",
        "_meta",
        "data",
        "error",
    )

    def __init__(self, data: Any = None, meta: Mapping[str, Any] | None = None) -> None:
        """Wraps ``data`` without copying it; ``meta`` is copied."""
        self.data = data
        self.error: FlowUnitError | None = None
        self._meta: dict[str, Any] | None = dict(meta) if meta else None
        self._is_meta_shared = False
        # Set by the runtime: no other consumer sees this array, which its unit has just made.
        self._is_exclusive = False
        # Set by the runtime: what a reader on a device must wait for (`Memory.fence`).
        self._fence: Any = None
        # Set by the runtime: the clock's time after which nobody waits for what becomes of it.
        self._deadline: float | None = None

    def twin(self) -> "Buffer":
        """Returns another buffer with the same data: its meta can be changed without harm to ours.

        The runtime gives one to each receiver behind a fan-out. The data is not copied.
        """
        other = Buffer.__new__(type(self))
        other.data, other.error = self.data, self.error
        other._meta = self._meta
        other._is_meta_shared = self._is_meta_shared = self._meta is not None
        other._is_exclusive = self._is_exclusive = False
        other._fence, other._deadline = self._fence, self._deadline
        return other

    @classmethod
    def from_error(cls, error: FlowUnitError, meta: Mapping[str, Any] | None = None) -> Self:
        """Gives a buffer without data that carries ``error`` in its place."""
        buffer = cls()
        buffer._meta = dict(meta) if meta else None
        buffer.error = error
        return buffer

    @property
    def meta(self) -> dict[str, Any]:
        """The small values that travel with the data; yours to change, private to this buffer."""
        if self._meta is None:
            self._meta = {}
        elif self._is_meta_shared:
            self._meta = dict(self._meta)
        self._is_meta_shared = False
        return self._meta

    def get(self, key: str, default: Any = None) -> Any:
        """Returns the meta value of ``key``, or ``default``.

        The sizes of an image (``width height channel``, and ``width_stride`` in bytes and
        ``height_stride`` in rows of a plane) are those of its array, whatever the meta say.
        """
        if self._meta is None:
            return default
        if key in _SIZES:
            found = self.sizes().get(key)
            if found is not None:
                return found
        return self._meta.get(key, default)

    def get_many(self, *keys: str) -> tuple[Any, ...]:
        """Returns the meta values of the keys, None for those that are not there."""
        return tuple(map(self.get, keys))

    def all_meta(self) -> dict[str, Any]:
        """Returns a copy of the meta with, of an image, the sizes that `get` knows."""
        return {**(self._meta or {}), **self.sizes()}

    def sizes(self) -> dict[str, int]:
        """Returns the sizes that follow from the array of an image: see `get`; else nothing."""
        meta = self._meta
        pix_fmt = None if meta is None else meta.get("pix_fmt")
        if meta is None or pix_fmt is None:
            return {}
        layout = meta.get("layout")
        size = size_of(self.data, pix_fmt, layout)
        if size is None:
            return {}
        width, height, channel = size
        is_planar = layout == "chw" or pix_fmt.endswith("p")
        stride = width if is_planar else width * channel
        return dict(zip(SIZE_KEYS, (width, height, channel, stride, height), strict=True))

    def set(self, key: str, value: Any) -> None:
        """Sets one meta value."""
        self.meta[key] = value

    def copy_meta(self, other: "Buffer") -> None:
        """Takes over every meta key of ``other`` that this buffer does not have yet."""
        self.inherit_meta(other)

    def inherit_meta(self, other: "Buffer") -> None:
        """The same as `copy_meta`, sharing the mapping until one of the two changes it."""
        theirs = other._meta
        if not theirs or theirs is self._meta:
            return
        if self._meta:
            self._meta = {**theirs, **self._meta}
            self._is_meta_shared = False
        else:
            self._meta = theirs
            self._is_meta_shared = other._is_meta_shared = True

    def has_error(self) -> bool:
        """Tells whether this buffer carries an error instead of data."""
        return self.error is not None

    def get_error_code(self) -> str:
        """Returns the error's code (``Unit.ProcessError``), or ``""`` where there is none."""
        return "" if self.error is None else self.error.code

    def get_error_msg(self) -> str:
        """Returns the error's text, naming node and unit, or ``""`` where there is none."""
        return "" if self.error is None else str(self.error)

    @property
    def device(self) -> Device:
        """Where the data lies: the CPU for everything but tensors that say otherwise."""
        for memory in device_memories():
            if memory.holds(self.data):
                return memory.device_of(self.data)
        return CPU

    def to(self, device: Device | str) -> "Buffer":
        """Returns this buffer with its data on ``device`` ("cpu", "cuda:0"); itself if it is there.

        Raises:
            DeviceUnavailableError: this machine has no such device.
            MissingDependencyError: a CUDA device, and PyTorch is not installed.
        """
        if isinstance(device, str):
            kind, _, index = device.partition(":")
            device = Device(kind, int(index or 0))
        here = self.device
        if device == here:
            return self
        require_devices((device,))
        if here != CPU and self._fence is not None:
            memory_of(here.kind).wait(self._fence, (self.data,))
        moved = type(self)()
        moved.data = _move(self.data, here, device)
        moved.inherit_meta(self)
        return moved

    def to_pil(self) -> "Image":
        """Returns the image as one of Pillow's: a copy, ``RGB`` or ``L``.

        Raises:
            ValueError: the data is no uint8 image of bgr, rgb or gray.
            MissingDependencyError: Pillow is not installed.
        """
        return image_of(self.to(CPU).data, *self.get_many("pix_fmt", "layout"))

    def as_object(self) -> Any:
        """Returns the data as it is."""
        return self.data

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        if isinstance(self.data, bytes | bytearray | memoryview):
            array = np.frombuffer(self.data, np.uint8)
        else:
            array = np.asarray(self.data)
        if copy is None:  # NumPy 1 has no word for "where it must"
            return np.asarray(array, dtype)
        return np.array(array, dtype=dtype, copy=copy)

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self.data.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        device: tuple[int, int] = self.data.__dlpack_device__()
        return device

    def __bytes__(self) -> bytes:
        if isinstance(self.data, str):
            return self.data.encode()
        if isinstance(self.data, np.ndarray):
            return self.data.tobytes()
        return bytes(memoryview(self.data))

    def __str__(self) -> str:
        """Gives a text's own text; anything else is described as `repr` does."""
        if isinstance(self.data, str):
            return self.data
        if isinstance(self.data, bytes):
            try:
                return self.data.decode()
            except UnicodeDecodeError:  # not text: described below
                return repr(self)
        return repr(self)

    def _repr_png_(self) -> bytes | None:
        """Returns what a notebook shows of an image; None: it is none."""
        if self.error is not None or self.get("pix_fmt") is None:
            return None
        try:
            image = self.to_pil()
        except (ValueError, MissingDependencyError):  # the notebook shows the text instead
            return None
        image.thumbnail(_SHOWN)
        file = io.BytesIO()
        image.save(file, "PNG")
        return file.getvalue()

    def __repr__(self) -> str:
        if self.error is not None:
            return f"Buffer(error={self.error!s})"
        return f"Buffer({_describe(self.data)}, meta={self._meta or {}!r})"


def _describe(data: Any) -> str:
    if isinstance(data, np.ndarray):
        return f"{data.dtype} array {data.shape}"
    if isinstance(data, bytes | bytearray | memoryview):
        return f"{len(data)} bytes"
    text = repr(data)
    return text if len(text) <= 80 else text[:77] + "..."


def _move(data: Any, here: Device, device: Device) -> Any:
    if here != CPU and here.kind != device.kind:
        (data,) = memory_of(here.kind).download((data,))
    if device == CPU:
        return data
    return memory_of(device.kind).upload((data,), device)[0]
