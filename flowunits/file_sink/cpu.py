"""``file_sink`` on the CPU."""

import itertools
import threading
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from flowunits.file_sink import FileSinkOptions
from flowunits.file_sink.encode import FORMATS, encode, json_line
from modelflow import Buffer, Context, FlowUnit
from modelflow.path_template import PathTemplate
from modelflow.whole_file import write_whole

_MAX_OPEN = 32


class FileSink(FlowUnit):
    """Writes each file beside its place and then moves it there, so that none is ever half.

    One instance serves all workers of the node: they share the count and the files of lines.
    """

    def open(self, config: FileSinkOptions) -> None:
        """Reads the template of the path.

        Raises:
            ValueError: it is none.
        """
        self._options = config
        self._template = PathTemplate(config.path)
        self._count = itertools.count()
        self._lock = threading.Lock()
        self._files: dict[Path, BinaryIO] = {}
        self._begun: set[Path] = set()

    def process(self, ctx: Context) -> None:
        """Writes each buffer."""
        for buffer in ctx.input():
            self._write(buffer)

    def close(self) -> None:
        """Closes the files of lines."""
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
            write_whole(path, json_line(self._labelled(buffer)))
        else:
            write_whole(path, encode(buffer, kind, path.suffix.lower(), self._options.quality))

    def _labelled(self, buffer: Buffer) -> Any:
        keys = self._options.meta
        if not keys:
            return buffer.data
        return {**{key: buffer.get(key) for key in keys}, "data": buffer.data}

    def _values(self, buffer: Buffer) -> dict[str, Any]:
        source = Path(str(buffer.get("path", "")))
        index = next(self._count)
        names = {"stem": source.stem, "name": source.name} if source.name else {}
        return {"index": index, **names, **buffer.meta}

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
            file = self._files.pop(path, None)
            if file is None:
                file = self._opened(path)
            self._files[path] = file  # the file used last is closed last
            file.write(line)
            file.flush()

    def _opened(self, path: Path) -> BinaryIO:
        while len(self._files) >= _MAX_OPEN:
            self._files.pop(next(iter(self._files))).close()
        path.parent.mkdir(parents=True, exist_ok=True)
        is_new = path not in self._begun and not self._options.append
        self._begun.add(path)
        return path.open("wb" if is_new else "ab")
