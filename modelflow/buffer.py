"""The class `Buffer`: an item on an edge of the graph."""

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
    """An item on an edge of the graph: ``data`` with its ``meta``, or an ``error``.

    Data is any Python object: a NumPy array, bytes, str, or a tensor on a device. The runtime does
    not copy data on its way through the graph. NumPy arrays that a flow unit receives are
    read-only. A unit may write to arrays and tensors of an input that is declared ``is_in_place``.
    All other data, such as lists and dicts, is shared between its consumers. A unit that changes
    such data changes it for all of them.

    For images, ``meta`` holds ``pix_fmt layout``. `get` also knows ``width height channel
    width_stride height_stride``, which follow from the array. For frames of a video, ``meta`` also
    holds ``index timestamp rate_num rate_den``.

    Two threads must not change a buffer at the same time. Reading is safe from any thread.
    """

    __slots__ = (
        "_deadline",
        "_fence",
        "_is_meta_shared",
        "_meta",
        "_own",
        "data",
        "error",
    )

    def __init__(self, data: Any = None, meta: Mapping[str, Any] | None = None) -> None:
        """Wraps ``data`` without a copy, and copies ``meta``.

        Args:
            data: The item itself, any Python object.
            meta: The values that travel with the data.
        """
        self.data = data
        self.error: FlowUnitError | None = None
        self._meta: dict[str, Any] | None = dict(meta) if meta else None
        self._is_meta_shared = False
        # Set by the runtime: the array, if no other code uses its memory (`stages/sharing.py`).
        self._own: Any = None
        # Set by the runtime: the event that a reader on a device must wait for (`Memory.fence`).
        self._fence: Any = None
        # Set by the runtime: the clock's time after which no caller waits for the result of this
        # buffer.
        self._deadline: float | None = None

    def twin(self) -> "Buffer":
        """Returns another buffer with the same data and a meta of its own.

        The runtime sends one twin to each receiver of a fan-out. The data is not copied. A change
        of the meta of one buffer does not affect the other.
        """
        other = Buffer.__new__(type(self))
        other.data, other.error = self.data, self.error
        other._meta = self._meta
        other._is_meta_shared = self._is_meta_shared = self._meta is not None
        other._own = self._own = None
        other._fence, other._deadline = self._fence, self._deadline
        return other

    @classmethod
    def from_error(cls, error: FlowUnitError, meta: Mapping[str, Any] | None = None) -> Self:
        """Returns a buffer that carries ``error`` and no data."""
        buffer = cls()
        buffer._meta = dict(meta) if meta else None
        buffer.error = error
        return buffer

    @property
    def meta(self) -> dict[str, Any]:
        """The small values that travel with the data; you may change them for this buffer alone."""
        if self._meta is None:
            self._meta = {}
        elif self._is_meta_shared:
            self._meta = dict(self._meta)
        self._is_meta_shared = False
        return self._meta

    def get(self, key: str, default: Any = None) -> Any:
        """Returns the meta value of ``key``, or ``default``.

        For an image, ``width height channel width_stride height_stride`` are calculated from the
        array. Values of the same keys in the meta are ignored. ``width_stride`` is in elements,
        ``height_stride`` in rows of a plane.
        """
        if self._meta is None:
            return default
        if key in _SIZES:
            found = self.sizes().get(key)
            if found is not None:
                return found
        return self._meta.get(key, default)

    def get_many(self, *keys: str) -> tuple[Any, ...]:
        """Returns the meta values of the keys, with None for each missing key."""
        return tuple(map(self.get, keys))

    def all_meta(self) -> dict[str, Any]:
        """Returns a copy of the meta, with the sizes that `get` calculates for an image."""
        return {**(self._meta or {}), **self.sizes()}

    def sizes(self) -> dict[str, int]:
        """Returns the sizes of an image by key, calculated from its array, as `get` does.

        The mapping is empty if the data is no image.
        """
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
        """Copies every meta key of ``other`` that this buffer does not have yet."""
        self.inherit_meta(other)

    def inherit_meta(self, other: "Buffer") -> None:
        """Copies meta keys as `copy_meta`, but shares the mapping until either buffer changes."""
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
        """Returns whether this buffer carries an error instead of data."""
        return self.error is not None

    def get_error_code(self) -> str:
        """Returns the code of the error (``Unit.ProcessError``), or ``""`` without an error."""
        return "" if self.error is None else self.error.code

    def get_error_msg(self) -> str:
        """Returns the text of the error with its node and unit, or ``""`` without an error."""
        return "" if self.error is None else str(self.error)

    @property
    def device(self) -> Device:
        """The device that holds the data: the CPU, except for tensors on another device."""
        for memory in device_memories():
            if memory.holds(self.data):
                return memory.device_of(self.data)
        return CPU

    def to(self, device: Device | str) -> "Buffer":
        """Returns a buffer with the data on ``device`` ("cpu", "cuda:0").

        Returns this buffer itself if its data is already on that device.

        Raises:
            DeviceUnavailableError: The machine has no such device.
            MissingDependencyError: The device is a CUDA device, and PyTorch is not installed.
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
        """Returns a copy of the image as a Pillow image of mode ``RGB`` or ``L``.

        Raises:
            ValueError: The data is no uint8 image of bgr, rgb or gray.
            MissingDependencyError: Pillow is not installed.
        """
        return image_of(self.to(CPU).data, *self.get_many("pix_fmt", "layout"))

    def as_object(self) -> Any:
        """Returns the data unchanged."""
        return self.data

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        if isinstance(self.data, bytes | bytearray | memoryview):
            array = np.frombuffer(self.data, np.uint8)
        else:
            array = np.asarray(self.data)
        if copy is None:  # NumPy 1 has no value of `copy` for "copy if needed"
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
        """Returns the text of a str or of UTF-8 bytes, and the `repr` for other data."""
        if isinstance(self.data, str):
            return self.data
        if isinstance(self.data, bytes):
            try:
                return self.data.decode()
            except UnicodeDecodeError:  # binary data, such as a JPEG
                return repr(self)
        return repr(self)

    def _repr_png_(self) -> bytes | None:
        """Returns a PNG of an image for a notebook, or None if the data is no image."""
        if self.error is not None or self.get("pix_fmt") is None:
            return None
        try:
            image = self.to_pil()
        except (ValueError, MissingDependencyError):  # the notebook shows the `repr` instead
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
