"""The memory of CUDA devices through PyTorch: tensors, streams, events, pinned staging."""

import threading
from collections import deque
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from modelflow.device import driver
from modelflow.device.device import Device
from modelflow.device.host import fill
from modelflow.device.memory import Memory
from modelflow.device.pool import ArrayPool, empty
from modelflow.errors import MissingDependencyError


def load_torch(extra: str = "cuda", needed_by: str = "device 'cuda'") -> Any:
    """Returns the module ``torch``.

    Args:
        extra: The extra of modelflow that installs PyTorch, for the message.
        needed_by: The feature that needs PyTorch, for the message.

    Raises:
        MissingDependencyError: PyTorch is not installed.
    """
    try:
        import torch
    except ModuleNotFoundError as error:
        raise MissingDependencyError(package="torch", extra=extra, needed_for=needed_by) from error
    return torch


def make_private_stream(device: Any) -> Any:
    """Returns a stream of a CUDA device that no worker uses.

    PyTorch returns 32 streams for each priority, and then the same streams again. Workers use
    streams of the default priority.

    Args:
        device: The ``torch.device``.
    """
    return load_torch().cuda.Stream(device, priority=-1)


class TorchMemory(Memory):
    """The memory of the devices that PyTorch calls ``torch_type``.

    With ``"cpu"`` only streams, events and pinned memory are missing. The same code thus runs
    without a GPU.

    Attributes:
        torch_type: PyTorch's name for the kind of device.
        pinned: The pool of pinned host memory, which the device reads directly.
    """

    torch_type = "cpu"

    def __init__(self) -> None:
        self._is_cuda = self.torch_type == "cuda"
        self.pinned = ArrayPool(allocate=_pin) if self._is_cuda else None
        self._streams = threading.local()
        # Staging memory of uploads in progress: (event, memory), oldest first.
        self._in_flight: deque[tuple[Any, Any]] = deque()
        self._lock = threading.Lock()

    def count(self) -> int:
        """Returns 1."""
        return 1

    def torch_device(self, device: Device) -> Any:
        """Returns PyTorch's value for ``device``."""
        torch = load_torch()
        return torch.device(self.torch_type, device.index) if self._is_cuda else torch.device("cpu")

    def holds(self, data: Any) -> bool:
        """Tells whether ``data`` is a tensor of this kind."""
        kind = type(data)
        is_tensor = kind.__module__ == "torch" and kind.__name__ == "Tensor"
        return is_tensor and data.device.type == self.torch_type

    def device_of(self, data: Any) -> Device:
        """Returns the device of a tensor."""
        return Device(self.kind, data.device.index or 0)

    def dtype_of(self, data: Any) -> "np.dtype[Any] | None":
        """Returns NumPy's dtype of a tensor, or None if NumPy lacks the type (bfloat16)."""
        return numpy_dtypes().get(data.dtype)

    def gather(
        self,
        items: Sequence[Any],
        size: int,
        dtype: npt.DTypeLike,
        device: Device,
        shape: tuple[int, ...] | None = None,
    ) -> Any:
        """Gathers device tensors on the device, and host arrays in pinned memory for one copy."""
        wanted = np.dtype(dtype)
        if all(isinstance(item, np.ndarray) for item in items):
            return self._stage(items, size, wanted, device, shape)
        torch, target = load_torch(), self.torch_device(device)
        tensors = [_tensor(item).to(target, non_blocking=True) for item in items]
        kind = _torch_dtypes()[wanted]
        if size == len(tensors) and shape is None:
            return stack_tensors(tensors).to(kind)
        row = tensors[0].shape if shape is None else shape
        out = torch.zeros((size, *row), dtype=kind, device=target)
        if shape is None:
            out[: len(tensors)] = stack_tensors(tensors)
        else:
            for place, tensor in enumerate(tensors):
                out[(place, *map(slice, tensor.shape))] = tensor
        return out

    def upload(self, arrays: Sequence[Any], device: Device) -> list[Any]:
        """Uploads arrays of equal shape and dtype as one copy."""
        groups: dict[tuple[Any, ...], list[int]] = {}
        for place, array in enumerate(arrays):
            key = (array.dtype, array.shape) if isinstance(array, np.ndarray) else (place,)
            groups.setdefault(key, []).append(place)
        moved: list[Any] = [None] * len(arrays)
        for places in groups.values():
            first = arrays[places[0]]
            if isinstance(first, np.ndarray):
                staged = self._stage([arrays[p] for p in places], len(places), first.dtype, device)
                for row, place in enumerate(places):
                    moved[place] = staged[row]
            else:
                target = self.torch_device(device)
                moved[places[0]] = _tensor(first).to(target, non_blocking=True)
        return moved

    def download(self, arrays: Sequence[Any]) -> list[npt.NDArray[Any]]:
        """Downloads tensors of equal shape and dtype as one copy, and waits for its end."""
        groups: dict[tuple[Any, ...], list[int]] = {}
        for place, tensor in enumerate(arrays):
            key = tensor.dtype, tensor.shape, tensor.device
            groups.setdefault(key, []).append(place)
        moved: list[npt.NDArray[Any]] = [np.empty(0)] * len(arrays)
        for places in groups.values():
            whole = self._download(stack_tensors([arrays[place] for place in places]).detach())
            for row, place in enumerate(places):
                moved[place] = whole[row, ...]
        return moved

    def running(self, device: Device) -> AbstractContextManager[Any]:
        """Returns the context that makes this thread's own stream current on the device."""
        if not self._is_cuda:
            return nullcontext()
        torch = load_torch()
        streams: dict[int, Any] | None = getattr(self._streams, "by_device", None)
        if streams is None:
            streams = self._streams.by_device = {}
        if device.index not in streams:
            streams[device.index] = torch.cuda.Stream(device.index)
        context: AbstractContextManager[Any] = torch.cuda.stream(streams[device.index])
        return context

    def fence(self, device: Device) -> Any:
        """Returns an event after all present work of this thread's stream."""
        if not self._is_cuda:
            return None
        torch = load_torch()
        event = torch.cuda.Event()
        event.record(torch.cuda.current_stream(device.index))
        return event

    def wait(self, fence: Any, arrays: Sequence[Any]) -> None:
        """Makes this thread's stream wait for an event, and keeps the memory for the stream."""
        if fence is None:
            return
        torch = load_torch()
        streams: dict[Any, Any] = {}  # a query for a stream costs more than the rest of this loop
        for array in arrays:
            stream = streams.get(array.device)
            if stream is None:
                stream = streams[array.device] = torch.cuda.current_stream(array.device)
                stream.wait_event(fence)
            array.record_stream(stream)

    def _stage(
        self,
        items: Sequence[Any],
        size: int,
        dtype: Any,
        device: Device,
        shape: tuple[int, ...] | None = None,
    ) -> Any:
        torch = load_torch()
        whole = (size, *(items[0].shape if shape is None else shape))
        staged = empty(whole, dtype) if self.pinned is None else self.pinned.empty(whole, dtype)
        staged[0 if shape is not None else len(items) :] = 0
        fill(staged, items, shape)
        tensor = torch.from_numpy(staged)
        if self.pinned is None:
            return tensor
        uploaded = tensor.to(self.torch_device(device), non_blocking=True)
        self._keep(self.fence(device), staged)
        return uploaded

    def _keep(self, event: Any, staged: Any) -> None:
        with self._lock:
            self._in_flight.append((event, staged))
            while self._in_flight and self._in_flight[0][0].query():
                self._in_flight.popleft()

    def _download(self, tensor: Any) -> npt.NDArray[Any]:
        torch = load_torch()
        if tensor.dtype == torch.bfloat16:
            tensor = tensor.float()
        if self.pinned is None:
            array: npt.NDArray[Any] = tensor.numpy()
            return array
        host = self.pinned.empty(tuple(tensor.shape), numpy_dtypes()[tensor.dtype])
        torch.from_numpy(host).copy_(tensor, non_blocking=True)
        self.fence(self.device_of(tensor)).synchronize()
        return host


class CudaMemory(TorchMemory):
    """The memory of CUDA devices."""

    kind = "cuda"
    torch_type = "cuda"

    def count(self) -> int:
        """Returns the number of devices that the driver sees, without loading PyTorch."""
        return driver.device_count()

    def describe_found(self) -> str:
        """Returns a sentence about the devices that the driver sees."""
        count = driver.device_count()
        return f"the CUDA driver sees {count} devices" if count else "there is no CUDA driver"


def stack_tensors(tensors: Sequence[Any]) -> Any:
    """Returns tensors of one shape as rows of one tensor, without a copy if possible.

    Views that are adjacent in one storage (``result[0], result[1], ...``) need no copy.
    """
    first = tensors[0]
    if len(tensors) == 1:
        return first.unsqueeze(0)
    if first.is_contiguous():
        step, start = first.numel(), first.storage_offset()
        storage = first.untyped_storage().data_ptr()
        if all(
            tensor.storage_offset() == start + row * step
            and tensor.is_contiguous()
            and tensor.dtype == first.dtype
            and tensor.shape == first.shape
            and tensor.untyped_storage().data_ptr() == storage
            for row, tensor in enumerate(tensors)
        ):
            return first.as_strided((len(tensors), *first.shape), (step, *first.stride()), start)
    return load_torch().stack(list(tensors))


def _tensor(item: Any) -> Any:
    if isinstance(item, np.ndarray):
        return load_torch().from_numpy(np.array(item))  # a copy, because the array may be read-only
    return item


def _pin(size: int) -> npt.NDArray[np.uint8]:
    torch = load_torch()
    memory: npt.NDArray[np.uint8] = torch.empty(size, dtype=torch.uint8, pin_memory=True).numpy()
    return memory


@cache
def numpy_dtypes() -> dict[Any, np.dtype[Any]]:
    """Returns PyTorch's element types and the equal types of NumPy."""
    return {theirs: ours for ours, theirs in _torch_dtypes().items()}


@cache
def _torch_dtypes() -> dict[np.dtype[Any], Any]:
    torch = load_torch()
    whole = ["bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))]
    names = [*whole, "float16", "float32", "float64", "complex64", "complex128"]
    return {np.dtype(name): getattr(torch, name) for name in names}
