"""``file_sink`` on the CPU."""

import itertools
import threading
from pathlib import Path
from typing import Any

import numpy as np

from flowunits.file_sink import FileSinkOptions
from flowunits.file_sink.encode import FORMATS, encode, json_line
from flowunits.file_sink.line_file import LineFile
from modelflow import Buffer, Context, FlowUnit
from modelflow.files.path_template import PathTemplate
from modelflow.files.whole_file import write_whole

_MAX_OPEN = 32
# Most hashes of written paths. A service may run without end, and its memory must stay bounded.
_MAX_KNOWN = 1_000_000


class FileSink(FlowUnit):
    """Writes to a temporary file and then renames the file, which is therefore never incomplete.

    All workers of the node share one instance, its count and its open JSON line files.
    """

    def open(self, config: FileSinkOptions) -> None:
        """Reads the template of the path.

        Raises:
            ValueError: the path is not a valid template.
        """
        self._options = config
        self._template = PathTemplate(config.path)
        self._count = itertools.count()
        self._lock = threading.Lock()
        self._files: dict[Path, LineFile] = {}
        self._begun: set[Path] = set()
        self._written: dict[int, None] = {}  # hashes of paths, the oldest first

    def process(self, ctx: Context) -> None:
        """Writes each buffer."""
        for buffer in ctx.input():
            self._write(buffer)

    def close(self) -> None:
        """Closes the JSON line files."""
        with self._lock:
            for file in self._files.values():
                file.close()
            self._files.clear()

    def _write(self, buffer: Buffer) -> None:
        path = self._template.fill(self._values(buffer))
        kind = self._kind(buffer.data, path.suffix.lower())
        if kind == "jsonl":
            self._write_line(path, json_line(self._labelled(buffer)))
        elif kind == "json":
            self._write_whole(path, json_line(self._labelled(buffer)))
        else:
            contents = encode(buffer, kind, path.suffix.lower(), self._options.quality)
            self._write_whole(path, contents)

    def _write_whole(self, path: Path, contents: bytes) -> None:
        if self._options.overwrite:
            write_whole(path, contents)
            return
        key = hash(path)
        with self._lock:
            if key in self._written:
                raise ValueError(
                    f"path: {path} was written in this run before; put {{index}}, {{stem}} or "
                    "another field into the path, or set overwrite=true to keep the last alone"
                )
            self._written[key] = None
            if len(self._written) > _MAX_KNOWN:
                del self._written[next(iter(self._written))]
        try:
            write_whole(path, contents)
        except BaseException:
            with self._lock:
                self._written.pop(key, None)
            raise

    def _labelled(self, buffer: Buffer) -> Any:
        keys = self._options.meta
        if not keys:
            return buffer.data
        return {**{key: buffer.get(key) for key in keys}, "data": buffer.data}

    def _values(self, buffer: Buffer) -> dict[str, Any]:
        source = Path(str(buffer.get("path", "")))
        index = next(self._count)
        names = {"stem": source.stem, "name": source.name} if source.name else {}
        return {"index": index, **names, **buffer.all_meta()}

    def _kind(self, data: Any, suffix: str) -> str:
        if self._options.format != "auto":
            return self._options.format
        if suffix in FORMATS:
            return FORMATS[suffix]
        if isinstance(data, bytes | bytearray | memoryview):
            return "bytes"
        if isinstance(data, str):
            return "text"
        return "npy" if isinstance(data, np.ndarray) else "json"

    def _write_line(self, path: Path, line: bytes) -> None:
        with self._lock:
            file = self._files.pop(path, None) or self._opened(path)
            self._files[path] = file  # last: the least recently used file is closed first
            file.write(line)

    def _opened(self, path: Path) -> LineFile:
        while len(self._files) >= _MAX_OPEN:
            self._files.pop(next(iter(self._files))).close()
        file = LineFile(path, is_new=path not in self._begun and not self._options.append)
        self._begun.add(path)
        return file
