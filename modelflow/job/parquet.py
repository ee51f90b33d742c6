"""Results as rows of Parquet, in one file, or in a folder of parts that a job can continue.

A row has the columns ``index``, ``path``, ``data``, ``error`` (null without an error) and ``meta``
(JSON). The first result determines the type of ``data``. A result of another type becomes an error
in its place. A finished Parquet file cannot take more rows. A resumable job therefore writes a
folder of numbered files. Each file is complete and on the disk before its inputs are noted as done.
"""

import contextlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from modelflow.errors import ConfigError, MissingDependencyError, explain_os_error
from modelflow.files.json_value import show_value
from modelflow.files.whole_file import remove_drafts, whole_file
from modelflow.wire.json_writer import json_line
from modelflow.wire.problem import sendable

if TYPE_CHECKING:
    from collections.abc import Sequence


# The kinds of dtypes that Arrow converts directly to lists.
_KINDS = "biuf"


class Column:
    """The type of the column ``data``, and the conversion of results to values."""

    def __init__(self, type: Any, encoding: bytes) -> None:  # noqa: A002 - the format's word
        """Stores the Arrow type, and the encoding of bytes or texts."""
        self.type = type
        self.encoding = encoding

    def value(self, pa: Any, data: Any) -> Any:
        """Returns a result as a value of the column.

        Raises:
            TypeError, ValueError: The result does not fit the column.
        """
        if self.encoding == b"json":
            return json_line(show_value(data, is_whole=True))
        if isinstance(data, np.ndarray) and data.ndim and data.dtype.kind in _KINDS:
            expected = _type_of(pa, data)
            if expected != self.type:
                raise TypeError(f"expected {self.type}, got {expected}")
            return data if data.dtype.isnative else data.astype(data.dtype.newbyteorder("="))
        plain = data.tolist() if isinstance(data, np.ndarray) else _plain(data)
        if pa.types.is_list(self.type) and not isinstance(plain, list):
            raise TypeError("expected a list")
        pa.array([plain], self.type)
        return plain

    def array(self, pa: Any, values: list[Any]) -> Any:
        """Returns values as an Arrow array."""
        kinds = {isinstance(value, np.ndarray) for value in values if value is not None}
        if kinds == {True, False}:  # both arrays and lists
            return pa.concat_arrays([self.array(pa, [value]).cast(self.type) for value in values])
        if True not in kinds:
            return pa.array(values, self.type)
        given = [np.ascontiguousarray(value) for value in values if value is not None]
        found = pa.array(np.concatenate([value.reshape(-1) for value in given]))
        for axis in range(given[0].ndim - 1, 0, -1):
            counts = [int(np.prod(value.shape[:axis])) for value in given]
            lengths = np.repeat([value.shape[axis] for value in given], counts)
            found = pa.ListArray.from_arrays(_offsets(lengths), found)
        lengths = np.array([0 if value is None else len(value) for value in values])
        mask = pa.array([value is None for value in values])
        return pa.ListArray.from_arrays(_offsets(lengths), found, mask=mask)


def _offsets(lengths: Any) -> Any:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)


def column_of(pa: Any, data: Any, encoding: bytes) -> Column:
    """Returns the column for a first result.

    Args:
        pa: The module ``pyarrow``.
        data: The result.
        encoding: The encoding of a result in bytes; empty for bytes as given.

    Raises:
        TypeError, ValueError, OverflowError, ArrowException: No column can hold the result.
    """
    if isinstance(data, np.ndarray) and data.ndim and data.dtype.kind in _KINDS:
        return Column(_type_of(pa, data), b"")
    plain = _plain(data)
    if isinstance(plain, bytes):
        return Column(pa.binary(), encoding)
    if isinstance(plain, str | bool | int | float):
        return Column(pa.scalar(plain).type, b"")
    is_list = isinstance(plain, list) and bool(plain)
    if is_list and all(isinstance(one, str | int | float) for one in plain):
        with contextlib.suppress(ValueError, TypeError, OverflowError, pa.ArrowException):
            return Column(pa.array([plain]).type, b"")
    return Column(pa.string(), b"json")


def _type_of(pa: Any, array: "np.ndarray[Any, Any]") -> Any:
    found = pa.from_numpy_dtype(array.dtype)
    for _ in range(array.ndim):
        found = pa.list_(found)
    return found


def _plain(data: Any) -> Any:
    if isinstance(data, np.ndarray | np.generic) and not getattr(data, "ndim", 0):
        return data.item()
    if isinstance(data, bytearray | memoryview):
        return bytes(data)
    if isinstance(data, tuple) and not hasattr(data, "_fields"):
        return list(data)
    return data


# The most rows and bytes of a part, or of a row group.
_MOST_ROWS, _MOST_BYTES = 4096, 32 << 20
# The most rows in error that wait for a first result, which determines the type.
_MOST_UNTYPED = 1 << 16
_PART = re.compile(r"part-(\d{5,})\.parquet")


class TableWriter:
    """Writes the results of one output; not safe for several threads.

    Attributes:
        is_resumed: Whether the output is a folder of parts.
    """

    def __init__(
        self, path: Path, option: str, parts: int | None, *, is_begun: bool = False
    ) -> None:
        """Opens the file or the folder.

        Args:
            path: The path of the file or folder.
            option: The option that named the path, for messages.
            parts: The number of complete parts, after which to continue. None for one new file.
            is_begun: Whether an earlier run of the job wrote to this output. Existing parts are
                then its own.

        Raises:
            ConfigError: The output cannot be written, parts are missing, or the folder has parts of
                another job.
            MissingDependencyError: ``pyarrow`` is not installed.
        """
        try:
            import pyarrow as pa
            import pyarrow.parquet as pq
        except ImportError as error:
            raise MissingDependencyError("pyarrow", "parquet", option) from error
        self._pa, self._pq = pa, pq
        self._path, self._option = path, option
        self.is_resumed = parts is not None
        self._parts = parts or 0
        self._rows: list[dict[str, Any]] = []
        self._bytes = 0
        self._column: Column | None = None
        self._file = contextlib.ExitStack()
        self._writer: Any = None
        self._unwritten = f"{option}: cannot write {path}"
        with explain_os_error(self._unwritten):
            self._open(is_begun)

    def _open(self, is_begun: bool) -> None:
        if self._path.is_dir() != self.is_resumed and self._path.exists():
            what = "a file" if self.is_resumed else "a folder of parts"
            raise ConfigError(
                f"{self._option}: {self._path} is {what}; --resume writes a folder of parts, and "
                "without it there is one file: remove it, or give another name"
            )
        if not self.is_resumed:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            return
        self._path.mkdir(parents=True, exist_ok=True)
        there = self._find_parts()
        if there and not is_begun:
            raise ConfigError(
                f"{self._option}: {min(there.values())} is there already, and the list that "
                "--resume names knows nothing of it; remove it, or give another folder"
            )
        remove_drafts(self._path)
        if missing := sorted(set(range(self._parts)) - there.keys()):
            raise ConfigError(
                f"{self._option}: {self._path} has no {_part(missing[0])}, which the job had "
                "written; to start again, remove the list that --resume names"
            )
        for number, path in there.items():
            if number >= self._parts:  # complete, but not noted; its rows are written again
                path.unlink()
        for number in range(self._parts):
            field = self._data_of(there[number])
            if self._column is None and not self._pa.types.is_null(field.type):
                self._column = Column(field.type, (field.metadata or {}).get(b"encoding", b""))

    def _find_parts(self) -> dict[int, Path]:
        """Returns the existing parts by their numbers."""
        paths = ((path, _PART.fullmatch(path.name)) for path in self._path.iterdir())
        return {int(found[1]): path for path, found in paths if found}

    def _data_of(self, part: Path) -> Any:
        """Returns the field ``data`` of a part's schema."""
        try:
            return self._pq.read_schema(part).field("data")
        except (self._pa.ArrowException, KeyError) as error:
            raise ConfigError(
                f"{self._option}: {part} is no whole part of results ({error}); expected a part "
                "that the job had written. Put it back, or start again: remove the folder and the "
                "list that --resume names"
            ) from error

    @property
    def count(self) -> int:
        """The number of waiting rows."""
        return len(self._rows)

    @property
    def is_full(self) -> bool:
        """Whether the waiting rows should be written."""
        if self._column is None:
            return len(self._rows) >= _MOST_UNTYPED
        return len(self._rows) >= _MOST_ROWS or self._bytes >= _MOST_BYTES

    def add(
        self,
        line: dict[str, Any],
        data: Any,
        error: str | None,
        meta: dict[str, Any],
        encoding: bytes = b"",
    ) -> None:
        """Adds a row, or raises and adds nothing.

        Args:
            line: The values of ``index`` and ``path``.
            data: The result, or None with an error.
            error: The error.
            meta: The meta of the result.
            encoding: The encoding of a result in bytes; empty for bytes as given.

        Raises:
            TypeError: The result does not fit the column.
            Exception: The result or its meta cannot be written.
        """
        said = json_line(show_value(meta)) if meta else None
        if data is not None:
            data = self._fit(data, encoding)
        self._bytes += getattr(data, "nbytes", 0) or len(data if isinstance(data, bytes) else b"")
        self._rows.append(
            {
                "index": line["index"],
                "path": None if (path := line.get("path")) is None else sendable(path),
                "data": data,
                "error": None if error is None else sendable(error),
                "meta": said,
            }
        )

    def _fit(self, data: Any, encoding: bytes) -> Any:
        """Returns a result as a value of the column; the first result makes the column."""
        try:
            column = self._column or column_of(self._pa, data, encoding)
            value = column.value(self._pa, data)
        except (TypeError, ValueError, OverflowError, self._pa.ArrowException) as mismatch:
            if self._column is None:
                what = f"no column can hold it ({mismatch})"
            else:
                what = f"the column holds {self._column.type}, as the first result was ({mismatch})"
            kind = type(data).__name__
            if isinstance(data, np.ndarray):
                kind = f"an array of {data.dtype} with {data.ndim} axes"
            raise TypeError(f"got {kind}; {what}") from mismatch
        self._column = column
        return value

    def write(self, count: int) -> int:
        """Writes the first waiting rows.

        Args:
            count: Number of rows.

        Returns:
            The number of parts now, each of them on the disk.

        Raises:
            ConfigError: The rows cannot be written.
        """
        rows, self._rows = self._rows[:count], self._rows[count:]
        if rows:
            self._bytes = 0 if not self._rows else self._bytes * len(self._rows) // len(rows)
            with explain_os_error(
                self._unwritten, "; the inputs behind the last part are not done"
            ):
                self._write(self._table(rows))
        return self._parts

    def close(self) -> None:
        """Writes the waiting rows to a single file and closes the file; does nothing for parts.

        Raises:
            ConfigError: The file cannot be written.
        """
        if self.is_resumed:
            return
        with explain_os_error(self._unwritten), self._file:
            if self._rows or self._writer is None:
                self._write(self._table(self._rows))
            self._writer.close()

    def _table(self, rows: "Sequence[dict[str, Any]]") -> Any:
        pa = self._pa
        column = self._column or Column(pa.null(), b"")
        metadata = {"encoding": column.encoding} if column.encoding else None
        schema = pa.schema(
            [
                pa.field("index", pa.int64()),
                pa.field("path", pa.string()),
                pa.field("data", column.type, metadata=metadata),
                pa.field("error", pa.string()),
                pa.field("meta", pa.string()),
            ]
        )
        columns = {name: [row[name] for row in rows] for name in schema.names}
        columns["data"] = column.array(pa, columns["data"])
        return pa.table(columns, schema=schema)

    def _write(self, table: Any) -> None:
        if self.is_resumed:
            path = self._path / _part(self._parts)
            with whole_file(path) as file:
                self._pq.write_table(table, file)
                file.flush()
                os.fsync(file.fileno())
            folder = os.open(self._path, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
            self._parts += 1
            return
        if self._writer is None:
            file = self._file.enter_context(whole_file(self._path))
            self._writer = self._pq.ParquetWriter(file, table.schema)
        self._writer.write_table(table, row_group_size=max(1, table.num_rows))


def _part(number: int) -> str:
    return f"part-{number:05d}.parquet"
