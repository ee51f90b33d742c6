"""The system shared memory extension: tensors in memory that a client on this machine shares.

A client creates memory with ``shm_open`` and registers it under a name. Requests then name the
region in place of the data of an input, or as the place of an output. The server reads and writes
the region by its descriptor and never maps it. So a client that shortens its memory gets an error,
and cannot crash the server.
"""

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelflow.errors import did_you_mean
from modelflow.serve.options import ServeOptions
from modelflow.wire.open_inference.infer import IN_REGION, Parameters, refuse_region
from modelflow.wire.problem import Code, Problem, refuse, shorten

OFFSET, BYTE_SIZE = "shared_memory_offset", "shared_memory_byte_size"
PARAMETERS = frozenset({IN_REGION, OFFSET, BYTE_SIZE})
"""The parameters of an input or output in shared memory."""

_FOLDER = Path("/dev/shm")  # where the system has the memory of `shm_open`
_KEY = re.compile(r"/?(?!\.\.?\Z)[^/\0]{1,250}")
_MOST = 1024
_LONGEST_NAME = 256


@dataclass(frozen=True, slots=True)
class SharedRegion:
    """A registered region.

    Attributes:
        name: The client's name of the region.
        key: The name for ``shm_open``.
        offset: The first byte of the region in the memory.
        byte_size: The number of bytes of the region.
        descriptor: The open descriptor of the memory.
    """

    name: str
    key: str
    offset: int
    byte_size: int
    descriptor: int

    def document(self) -> dict[str, Any]:
        """Returns the region for its status, and for other processes."""
        return {
            "name": self.name,
            "key": self.key,
            "offset": self.offset,
            "byte_size": self.byte_size,
        }


class SharedRegions:
    """The regions that clients have registered in this process. For the server's thread."""

    def __init__(self, *, is_allowed: bool = False, most: int = 0) -> None:
        """Creates an empty table.

        Args:
            is_allowed: Clients may register regions.
            most: Most bytes of one tensor.
        """
        self._most = most
        self.is_allowed = is_allowed
        self._regions: dict[str, SharedRegion] = {}

    def change(self, change: Mapping[str, Any]) -> None:
        """Registers or removes a region.

        Args:
            change: ``{"register": document}``, or ``{"unregister": name}`` with "" for all.

        Raises:
            Problem: the region is wrong, exists already, or may not be registered.
        """
        if not self.is_allowed:
            refuse(
                "system shared memory may not be used here; serve with --allow-shared-memory",
                Code.PERMISSION_DENIED,
            )
        if "register" in change:
            self._register(**change["register"])
        else:
            name = change["unregister"]
            for one in [name] if name else [*self._regions]:
                region = self._regions.pop(one, None)
                if region is not None:
                    os.close(region.descriptor)

    def _register(self, name: object, key: object, offset: object, byte_size: object) -> None:
        where = f"shared memory region {shorten(name)}"
        if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME:
            refuse(f"{where}: expected a name of at most {_LONGEST_NAME} characters")
        if name in self._regions:
            refuse(f"{where} is registered already; unregister it first", Code.ALREADY_EXISTS)
        if len(self._regions) >= _MOST:
            refuse(f"{where}: {_MOST} regions are registered", Code.RESOURCE_EXHAUSTED)
        if not isinstance(key, str) or not _KEY.fullmatch(key):
            refuse(f"{where}: key {shorten(key)}; expected a name for shm_open, such as /my_region")
        if type(offset) is not int or type(byte_size) is not int or offset < 0 or byte_size < 1:
            refuse(
                f"{where}: offset {shorten(offset)}, byte_size {shorten(byte_size)}; expected an "
                "offset from 0 and a size from 1"
            )
        try:
            flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
            descriptor = os.open(_FOLDER / key.removeprefix("/"), flags)
        except OSError as error:
            refuse(f"{where}: key {shorten(key)} cannot be opened: {error.strerror}", cause=error)
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            os.close(descriptor)
            refuse(f"{where}: key {shorten(key)} is no shared memory; create it with shm_open")
        if offset + byte_size > found.st_size:
            os.close(descriptor)
            refuse(
                f"{where}: bytes {offset} to {offset + byte_size}; the memory {shorten(key)} has "
                f"{found.st_size} bytes"
            )
        self._regions[name] = SharedRegion(name, key, offset, byte_size, descriptor)

    def list(self, name: str = "") -> list[dict[str, Any]]:
        """Returns the region of a name, or all regions for ``""``.

        Raises:
            Problem: no region has that name.
        """
        if name and name not in self._regions:
            raise self._unknown(name)
        return [one.document() for one in self._regions.values() if name in ("", one.name)]

    def read(self, parameters: Parameters, where: str) -> bytes:
        """Returns the bytes of an input.

        Args:
            parameters: The parameters of the input.
            where: The name of the input, for messages.

        Raises:
            Problem: the region is not registered or shorter than the input.
        """
        region, offset, size = self._place(parameters, where)
        parts = []
        while size:
            part = os.pread(region.descriptor, size, offset)
            if not part:
                refuse(f"{where}: the memory of region {region.name!r} has become shorter")
            parts.append(part)
            offset, size = offset + len(part), size - len(part)
        return b"".join(parts)

    def write(self, parameters: Parameters, data: bytes, where: str) -> dict[str, Any]:
        """Writes the bytes of an output, and returns the parameters of the output in the answer.

        Args:
            parameters: The parameters of the requested output.
            data: The bytes.
            where: The name of the output, for messages.

        Raises:
            Problem: the region is not registered or too short, or the memory cannot be written.
        """
        region, offset, size = self._place(parameters, where)
        if len(data) > size:
            refuse(f"{where}: {len(data)} bytes; region {region.name!r} has room for {size}")
        view = memoryview(data)
        try:
            while view:
                written = os.pwrite(region.descriptor, view, offset)
                view, offset = view[written:], offset + written
        except OSError as error:
            refuse(f"{where}: region {region.name!r}: {error.strerror}", cause=error)
        found = {IN_REGION: region.name, BYTE_SIZE: len(data)}
        if parameters.get(OFFSET):
            found[OFFSET] = parameters[OFFSET]
        return found

    def _place(self, parameters: Parameters, where: str) -> tuple[SharedRegion, int, int]:
        """Returns the region of a tensor, its first byte in the memory, and its size."""
        if not self.is_allowed:
            refuse_region(parameters, where)
        name, offset = parameters[IN_REGION], parameters.get(OFFSET, 0)
        size = parameters.get(BYTE_SIZE)
        region = self._regions.get(name) if isinstance(name, str) else None
        if region is None:
            raise self._unknown(name)
        if not (
            type(offset) is int
            and type(size) is int
            and 0 <= offset <= offset + size <= region.byte_size
        ):
            given = f"{OFFSET} {shorten(offset)}, {BYTE_SIZE} {shorten(size)}"
            refuse(
                f"{where}: {given}; expected an offset from 0 and a number of bytes inside region "
                f"{name!r}, which has {region.byte_size} bytes"
            )
        if size > self._most:
            refuse(
                f"{where}: {BYTE_SIZE} {size}; at most {self._most} bytes are taken (--max-body)",
                Code.RESOURCE_EXHAUSTED,
            )
        return region, region.offset + offset, size

    def _unknown(self, name: object) -> Problem:
        near = did_you_mean(str(name), self._regions)
        text = f"shared memory region {shorten(name)} is not registered{near}"
        return Problem(text, Code.NOT_FOUND)


def regions_of(options: ServeOptions) -> SharedRegions:
    """Returns an empty table with the limits of a server."""
    return SharedRegions(is_allowed=options.is_memory_shared, most=options.max_body)


def refuse_cuda() -> Problem:
    """Returns the error for memory of a GPU."""
    return Problem(
        "CUDA shared memory is not supported; use system shared memory", Code.UNIMPLEMENTED
    )
