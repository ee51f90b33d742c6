"""``file_source`` on the CPU."""

import glob
import re
from pathlib import Path

from flowunits.file_source import FileSourceOptions
from modelflow import Buffer, Context, FlowUnit

_FILES_A_CALL = 8
_BYTES_A_CALL = 64 << 20


class FileSource(FlowUnit):
    """Lists the files in `open` and reads a few files in each call."""

    def open(self, config: FileSourceOptions) -> None:
        """Lists the files.

        Raises:
            FileNotFoundError: no file matches.
        """
        self._options = config
        self._files = _found(config.path, config.extensions)
        if not self._files:
            message = f"file_source: got the path {config.path!r}, which matches no file"
            if config.extensions:
                message += f" that ends in {', '.join(config.extensions)}"
            message += "; expected a file, a folder or a pattern"
            raise FileNotFoundError(message)

    def process(self, ctx: Context) -> None:
        """Reads the next files; an unreadable file becomes an error at its place."""
        index: int = ctx.state.get("index", 0)
        last = self._options.repeat * len(self._files) if self._options.repeat > 0 else None
        values: list[Buffer | OSError | ValueError] = []
        size = 0
        while len(values) < _FILES_A_CALL and size < _BYTES_A_CALL and index != last:
            value = self._read(self._files[index % len(self._files)], index)
            size += len(value.data) if isinstance(value, Buffer) else 0
            values.append(value)
            index += 1
        ctx.state["index"] = index
        ctx.emit(values)
        if index == last:
            ctx.finish()

    def _read(self, file: Path, index: int) -> Buffer | OSError | ValueError:
        most = self._options.max_bytes
        try:
            with file.open("rb") as stream:
                data = stream.read(most + 1)
        except OSError as error:
            return error
        if len(data) > most:
            message = f"{file}: got more than {most} bytes; expected at most max_bytes={most}"
            return ValueError(message)
        return Buffer(data, {"path": str(file), "index": index})


def _found(path: str, extensions: tuple[str, ...]) -> list[Path]:
    place = Path(path)
    if place.is_dir():
        files = [file for file in place.iterdir() if not file.name.startswith(".")]
    elif place.exists():  # even if its name has the characters of a pattern
        files = [place]
    else:
        files = [Path(name) for name in glob.iglob(path, recursive=True)]
    endings = {"." + ending.lower().lstrip(".") for ending in extensions}
    wanted = {
        file.absolute()
        for file in files
        if file.is_file() and (not endings or file.suffix.lower() in endings)
    }
    return sorted(wanted, key=_natural)


def _natural(file: Path) -> tuple[list[tuple[int, str]], str]:
    """Returns a sort key that compares runs of digits by value, and equal keys by their text."""
    parts = re.split(r"([0-9]+)", str(file))
    return [_weight(part) if at % 2 else (0, part) for at, part in enumerate(parts)], str(file)


def _weight(digits: str) -> tuple[int, str]:
    significant = digits.lstrip("0")
    return len(significant), significant
