"""Copies of data between devices, made by the worker's thread for a whole batch.

Example: "decode" runs on the CPU, "infer" and "rank" on ``cuda:0``. The output of "rank" leaves the
graph. A batch of three images moves as follows::

    step               data                                 copies
    "infer": arrive    three images, CPU -> cuda:0          one upload if all shapes are equal
    "infer": depart    stays on cuda:0, marked by a fence   none
    "rank": arrive     stays, waits for the fence           none
    "rank": depart     three results, cuda:0 -> CPU         one download, then read-only

The fence delays the calls of "rank" on the device until the results of "infer" are complete.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from time import perf_counter
from typing import Any

from modelflow.buffer import Buffer
from modelflow.device import CPU, Device, Memory, device_memories, memory_of
from modelflow.runtime.session.segment import Columns
from modelflow.runtime.stats import WorkerStats
from modelflow.unit.port import Port

ANY = "any"


class Transfer:
    """The copies of a worker: moves inputs to the unit's device, and delivered results to the host.

    Data that is on the right device is not copied. A column moves as one copy if its arrays have
    the same shape.
    """

    def __init__(
        self,
        device: Device,
        ports: Sequence[Port],
        delivered: frozenset[int],
        stats: WorkerStats,
    ) -> None:
        """Stores the values that do not change between batches.

        Args:
            device: The worker's device.
            ports: The connected inputs, in the order of the columns.
            delivered: The outputs whose results leave the graph, and so move to the host.
            stats: The counters of moved data.
        """
        self._device = device
        self._memory = memory_of(device.kind)
        self._targets = [_target(port, device) for port in ports]
        self._delivered = delivered
        self._stats = stats

    def running(self) -> AbstractContextManager[Any]:
        """Returns the context for the worker's calls."""
        return self._memory.running(self._device)

    def arrive(self, columns: Columns) -> Columns:
        """Returns the inputs of a batch, moved to the devices that the ports ask for.

        Raises:
            Exception: an error of the device's library, such as "out of memory".
        """
        return [
            self._on_arrival(column, target)
            for column, target in zip(columns, self._targets, strict=False)
        ] + list(columns[len(self._targets) :])

    def depart(self, columns: Columns) -> None:
        """Marks results of the device with a fence, and moves delivered results to the host.

        Raises:
            Exception: an error of the device's library.
        """
        if self._device.kind == CPU.kind:
            return
        fence = self._memory.fence(self._device)
        for place, column in enumerate(columns):
            held = [b for b in _flat(column) if b.error is None and self._memory.holds(b.data)]
            if place in self._delivered:
                self._deliver(held)
            else:
                for buffer in held:
                    buffer._fence = fence

    def _on_arrival(self, column: list[Any], target: Device | None) -> list[Any]:
        buffers = [buffer for buffer in _flat(column) if buffer.error is None]
        moved: dict[int, Buffer] = {}
        for memory in device_memories():
            held = [buffer for buffer in buffers if memory.holds(buffer.data)]
            _wait(memory, held)
            if target is not None:
                away = [b for b in held if memory.device_of(b.data) != target]
                self._move(memory, away, target, moved)
        if target is not None and target.kind != CPU.kind:
            host = memory_of(CPU.kind)
            self._move(host, [b for b in buffers if host.holds(b.data)], target, moved)
        if not moved:
            return column
        return _replace(column, lambda buffer: moved.get(id(buffer), buffer))

    def _move(
        self, memory: Memory, held: list[Buffer], target: Device, moved: dict[int, Buffer]
    ) -> None:
        if not held:
            return
        arrays = [buffer.data for buffer in held]
        start = perf_counter()
        if target.kind not in (memory.kind, CPU.kind) and memory.kind != CPU.kind:
            arrays = list(memory.download(arrays))  # from device to device through the host
        copies = (memory.download if target.kind == CPU.kind else self._upload)(arrays)
        self._count(arrays, start)
        for buffer, copied in zip(held, copies, strict=True):
            if target.kind == CPU.kind:
                copied.flags.writeable = False
            moved[id(buffer)] = _with(buffer, copied)

    def _upload(self, arrays: Sequence[Any]) -> list[Any]:
        return self._memory.upload(arrays, self._device)

    def _count(self, arrays: Sequence[Any], start: float) -> None:
        size = sum(int(array.nbytes) for array in arrays)
        self._stats.count_transfer(len(arrays), size, perf_counter() - start)

    def _deliver(self, held: list[Buffer]) -> None:
        if held:
            arrays, start = [buffer.data for buffer in held], perf_counter()
            copies = self._memory.download(arrays)
            self._count(arrays, start)
            for buffer, copied in zip(held, copies, strict=True):
                copied.flags.writeable = False
                buffer.data = copied


def _wait(memory: Memory, held: list[Buffer]) -> None:
    by_fence: dict[int, tuple[Any, list[Any]]] = {}
    for buffer in held:
        if buffer._fence is not None:
            by_fence.setdefault(id(buffer._fence), (buffer._fence, []))[1].append(buffer.data)
    for fence, arrays in by_fence.values():
        memory.wait(fence, arrays)


def _target(port: Port, device: Device) -> Device | None:
    """Returns the device on which a port needs its data, or None for any device."""
    if port.device == ANY:
        return None
    if port.device is None or port.device == device.kind:
        return device
    return CPU


def _flat(column: Sequence[Any]) -> list[Buffer]:
    flat: list[Buffer] = []
    for cell in column:  # a cell of a collapse is a list
        if isinstance(cell, list):
            flat.extend(cell)
        elif cell is not None:
            flat.append(cell)
    return flat


def _replace(column: Sequence[Any], change: Callable[[Buffer], Buffer]) -> list[Any]:
    return [[*map(change, cell)] if isinstance(cell, list) else change(cell) for cell in column]


def _with(buffer: Buffer, data: Any) -> Buffer:
    moved = Buffer(data)
    moved.inherit_meta(buffer)
    moved._deadline = buffer._deadline
    return moved
