"""What ``modelflow run --output`` writes: JSON lines, or a file a result."""

import io
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import click
import numpy as np

from modelflow.buffer import Buffer
from modelflow.errors import ConfigError, did_you_mean
from modelflow.files.whole_file import write_whole

__all__ = ["ResultWriter"]

# Arrays up to this many values are written in full in a JSON line.
_FEW = 16
_SIGNATURES = ((b"\xff\xd8\xff", ".jpg"), (b"\x89PNG", ".png"), (b"RIFF", ".webp"))


class ResultWriter:
    """Writes results where the command line wants them, and counts them. For one thread.

    Attributes:
        items: Results written, those in error too.
        errors: How many of them were in error.
    """

    def __init__(self, texts: Sequence[str], outputs: Sequence[str]) -> None:
        """Reads ``--output PORT=FILE|DIR|-``; outputs that are not named go to standard output.

        Raises:
            click.UsageError: the graph has no such output.
            ConfigError: nothing can be written there.
        """
        self.items = self.errors = 0
        self._counts = dict.fromkeys(outputs, 0)
        self._files: dict[str, TextIO] = {}
        self._folders: dict[str, Path] = {}
        for text in texts:
            port, where = _split(text, outputs)
            path = Path(where)
            if where != "-" and (where.endswith(os.sep) or os.path.isdir(where) or not path.suffix):
                self._folders[port] = _made(path, text)
                if any(path.iterdir()):
                    note = f"note: {where} is not empty: what is in it stays beside the new files"
                    click.echo(note, err=True)
            elif where != "-":
                _made(path.parent, text)
                self._files[port] = _opened(path, text)

    def write(self, output: str, buffer: Buffer) -> None:
        """Writes one result."""
        index = self._counts[output]
        self._counts[output] += 1
        self.items += 1
        line: dict[str, Any] = {"index": index, "output": output}
        if buffer.get("path") is not None:
            line["path"] = str(buffer.get("path"))
        if buffer.error is not None:
            self.errors += 1
            self._print(output, {**line, "error": _error(buffer)})
        elif output in self._folders:
            self._save(self._folders[output], index, buffer)
        else:
            meta = {key: value for key, value in buffer.meta.items() if key != "path"}
            self._print(output, {**line, "data": _shown(buffer.data), "meta": _shown(meta)})

    def close(self) -> None:
        """Closes the files."""
        for file in self._files.values():
            file.close()

    def _print(self, output: str, line: Mapping[str, Any]) -> None:
        file = self._files.get(output, sys.stdout)
        file.write(json.dumps(line, ensure_ascii=False) + "\n")
        file.flush()

    def _save(self, folder: Path, index: int, buffer: Buffer) -> None:
        source = buffer.get("path")
        stem = f"{index:06d}" if source in (None, "-") else f"{index:06d}_{Path(str(source)).stem}"
        data = buffer.data
        if isinstance(data, np.ndarray) and data.dtype == np.uint8 and buffer.get("pix_fmt"):
            data = _looked_at(buffer)
        if isinstance(data, np.ndarray):
            file = io.BytesIO()
            np.save(file, data, allow_pickle=False)
            write_whole(folder / f"{stem}.npy", file.getvalue())
        elif isinstance(data, bytes | bytearray | memoryview):
            raw = bytes(data)
            ending = next((end for start, end in _SIGNATURES if raw.startswith(start)), ".bin")
            write_whole(folder / f"{stem}{ending}", raw)
        else:
            text = json.dumps(_shown(data), ensure_ascii=False)
            write_whole(folder / f"{stem}.json", text.encode() + b"\n")


def _made(folder: Path, text: str) -> Path:
    """Makes a folder, where it is not there yet."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"--output {text}: cannot make the folder {folder}: {error.strerror or error}"
        raise ConfigError(message) from error
    return folder


def _opened(path: Path, text: str) -> TextIO:
    try:
        return path.open("w", encoding="utf-8")
    except OSError as error:
        message = f"--output {text}: cannot write {path}: {error.strerror or error}"
        raise ConfigError(message) from error


def _looked_at(buffer: Buffer) -> Any:
    """Returns an image as PNG, to be looked at; data that has an image's meta alone as it is."""
    from modelflow.image import encode_image, read_image

    try:
        image = read_image(buffer, allow_nv12=True)
    except ValueError:  # made from an image, whose meta it has inherited
        return buffer.data
    return encode_image(image, "png")


def _split(text: str, outputs: Sequence[str]) -> tuple[str, str]:
    port, equals, where = text.partition("=")
    if equals and port in outputs:
        return port, where
    if len(outputs) == 1 and not equals:
        return outputs[0], text
    near, names = did_you_mean(port, outputs), ", ".join(outputs) or "none"
    message = f"--output {text}: the graph has no output {port!r}{near} (outputs: {names})"
    raise click.UsageError(message)


def _error(buffer: Buffer) -> dict[str, str]:
    error = buffer.error
    assert error is not None  # the caller has looked
    cause = error.__cause__ or error
    return {
        "node": error.node,
        "unit": error.unit,
        "phase": error.phase,
        **({"where": error.where} if error.where else {}),
        "type": type(cause).__name__,
        "message": str(error),
    }


def _shown(value: Any) -> Any:
    """The value as JSON can hold it; a large array as a summary."""
    if isinstance(value, np.ndarray):
        return _array(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, bytes | bytearray | memoryview):
        return {"bytes": len(value)}
    if isinstance(value, Mapping):
        return {str(key): _shown(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_shown(item) for item in value]
    return value if isinstance(value, str | int | float | bool | None) else repr(value)


def _array(array: np.ndarray[Any, Any]) -> Any:
    if array.size <= _FEW:
        return array.tolist()
    summary: dict[str, Any] = {"dtype": str(array.dtype), "shape": list(array.shape)}
    if array.dtype.kind in "iufb":
        summary |= {"min": array.min().item(), "max": array.max().item()}
        summary |= {"first": array.reshape(-1)[:4].tolist()}
    return summary
