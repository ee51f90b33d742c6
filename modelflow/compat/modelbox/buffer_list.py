"""`BufferList`: the buffers of one port."""

from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np

from modelflow.buffer import Buffer as NativeBuffer
from modelflow.compat.modelbox.buffer import Buffer, outgoing
from modelflow.compat.modelbox.device import Device
from modelflow.http.payload import PAYLOAD_MARKS

__all__ = ["BufferList"]


class BufferList:
    """The buffers of one port."""

    def __init__(self, source: "Device | Buffer | Sequence[Buffer] | None" = None) -> None:
        self._device = source if isinstance(source, Device) else Device()
        self._buffers: list[Buffer] = []
        if isinstance(source, Buffer):
            self.push_back(source)
        elif isinstance(source, list | tuple):
            for buffer in source:
                self.push_back(buffer)

    @classmethod
    def of(cls, natives: Sequence[NativeBuffer], device: Device) -> Self:
        """Returns the list of native buffers."""
        found = cls(device)
        found._buffers = [Buffer(native) for native in natives]
        return found

    def build(self, sizes: Sequence[int]) -> None:
        """Replaces the buffers by new ones of so many bytes, filled with zeros."""
        self._buffers = [Buffer(self._device, np.zeros(size, np.uint8)) for size in sizes]

    def size(self) -> int:
        """Returns how many buffers there are."""
        return len(self._buffers)

    def push_back(self, value: Any) -> None:
        """Adds a buffer (its header is copied), an array, or a text."""
        self._buffers.append(
            Buffer(value) if isinstance(value, Buffer) else Buffer(self._device, value)
        )

    def front(self) -> Buffer | None:
        """Returns the first buffer, or None."""
        return self[0]

    def back(self) -> Buffer | None:
        """Returns the last buffer, or None."""
        return self[len(self) - 1]

    def set(self, key: str, value: Any) -> None:
        """Stores a meta value in every buffer."""
        for buffer in self._buffers:
            buffer.set(key, value)

    def set_error(self, code: str, message: str) -> None:
        """Makes every buffer an error."""
        for buffer in self._buffers:
            buffer.set_error(code, message)

    def copy_meta(self, other: "BufferList", is_override: bool = False) -> None:
        """Takes over the meta of the buffers of ``other``, one by one."""
        for mine, theirs in zip(self._buffers, other._buffers, strict=False):
            if is_override:
                for key, value in theirs.all_meta().items():
                    if key not in PAYLOAD_MARKS:
                        mine.meta[key] = value
            mine.copy_meta(theirs)

    def get_bytes(self) -> int:
        """Returns the size of all payloads in bytes."""
        return sum(buffer.get_bytes() for buffer in self._buffers)

    def get_device(self) -> Device:
        """Returns the device."""
        return self._device

    def natives(self) -> list[NativeBuffer]:
        """Returns copies of the native headers, as they go on into the graph."""
        return [outgoing(buffer) for buffer in self._buffers]

    def __len__(self) -> int:
        return len(self._buffers)

    def __iter__(self) -> Iterator[Buffer]:
        return iter(self._buffers)

    def __getitem__(self, place: int) -> Buffer | None:
        return self._buffers[place] if 0 <= place < len(self._buffers) else None
