"""The results of ``modelflow run --output``: JSON lines, a folder of files, or Parquet."""

import base64
import contextlib
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Self

from modelflow.buffer import Buffer
from modelflow.errors import ArgumentError, ConfigError, FlowUnitError, explain_os_error
from modelflow.files.json_value import is_in_short, show_value
from modelflow.files.whole_file import check_standard_output, remove_drafts, write_whole
from modelflow.job.error_report import ErrorReport, error_fields, place_of
from modelflow.job.inputs import split_port
from modelflow.job.parquet import TableWriter
from modelflow.job.result_folder import as_png, encode_result, is_image, remove_results
from modelflow.pixels import FORMAT_KEYS, SIZE_KEYS
from modelflow.wire.json_writer import json_line

# Meta keys of images, which are left out for results that are no images.
_OF_IMAGES = frozenset((*FORMAT_KEYS, *SIZE_KEYS))


class ResultWriter:
    """Writes and counts results; not safe for several threads.

    Attributes:
        counts: Output -> number of written results, including errors and earlier runs.
        items: Number of results of this run, for all outputs together.
    """

    def __init__(
        self,
        texts: Sequence[str],
        outputs: Sequence[str],
        errors: ErrorReport,
        note: Callable[[str], None],
        *,
        is_whole: bool = False,
    ) -> None:
        """Parses ``--output PORT=FILE|DIR|-``; unnamed outputs go to standard output.

        Args:
            texts: The values of ``--output``.
            outputs: The outputs of the graph.
            errors: The report for results in error.
            note: Called with messages for the user.
            is_whole: Whether JSON lines have large values in full.

        Raises:
            ArgumentError: The graph has no such output, or an output is named twice.
        """
        self.items = 0
        self.counts = dict.fromkeys(outputs, 0)
        self._errors = errors
        self._note = note
        self._is_whole = is_whole
        self._is_short_told = self._is_paired = False
        self._failed: set[int] = set()
        self._untold: list[tuple[int, Buffer, dict[str, Any]]] = []
        self._paths: Sequence[str] = ()
        self._inputs: dict[str, set[str]] = {}
        self._done = 0
        self._files: dict[str, BinaryIO] = {}
        self._texts = targets_of(texts, outputs)
        self._folders: dict[str, Path] = {}
        self._saved: dict[str, int] = {}
        self._tables: dict[str, TableWriter] = {}

    @property
    def places(self) -> dict[str, str]:
        """Output -> its place; ``-`` is standard output."""
        return {port: self._texts[port][1] if port in self._texts else "-" for port in self.counts}

    def protect(self, inputs: Iterable[Path]) -> None:
        """Protects files from being overwritten by results in their folder; call before `open`."""
        folders: dict[Path, set[str]] = {}
        for path in inputs:
            folders.setdefault(path.parent, set()).add(path.name)
        for folder, names in folders.items():
            self._inputs.setdefault(os.path.realpath(folder), set()).update(names)

    def open(
        self,
        is_paired: bool,
        done: int = 0,
        sizes: Mapping[str, int] | None = None,
        *,
        is_begun: bool = False,
        paths: Sequence[str] = (),
    ) -> Self:
        """Opens the files and folders.

        Args:
            is_paired: Whether every output gets one result for each input. The error of an input
                then comes out of all outputs, and is reported once.
            done: Number of inputs with complete results, after which to continue.
            sizes: Output -> size of its results (bytes, results or parts). None for new files.
            is_begun: Whether an earlier run of the job wrote to these outputs.
            paths: The file of each input from ``done`` on. Used if every input has one result.
                Results without a path, such as collapsed ones, get the path of their input.

        Raises:
            ConfigError: An output cannot be written, or results are missing.
        """
        if "-" in self.places.values():
            check_standard_output("--output -")
        self.counts = dict.fromkeys(self.counts, done)
        self._paths, self._done = paths if is_paired else (), done
        self._is_paired = is_paired
        for port, (text, where) in self._texts.items():
            path = Path(where)
            if path.suffix.lower() == ".parquet":
                done_parts = None if sizes is None else sizes.get(port, 0)
                self._tables[port] = TableWriter(
                    path, f"--output {text}", done_parts, is_begun=is_begun
                )
            elif where != "-" and _is_folder(where):
                self._folders[port] = _make_folder(path, text)
                saved = self._saved[port] = (sizes or {}).get(port, 0)
                if sizes is not None:
                    remove_drafts(path)
                    remove_results(path, done, saved, f"--output {text}", is_begun=is_begun)
                elif any(path.iterdir()):
                    self._note(f"{where} is not empty: its files stay next to the new files")
            elif where != "-":
                _make_folder(path.parent, text)
                self._files[port] = _open(path, text, None if sizes is None else sizes.get(port))
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            with contextlib.suppress(OSError):  # bytes of a failed `write` are still in the buffer
                file.close()
        for table in self._tables.values():
            table.close()
        for _index, buffer, line in self._untold:  # if the run ended early
            self._errors.add(buffer, line)

    def write(self, output: str, buffer: Buffer) -> None:
        """Writes one result.

        Raises:
            ConfigError: The result cannot be written.
        """
        index = self.counts[output]
        self.counts[output] += 1
        self.items += 1
        buffer = self._add_path(index, buffer)
        if buffer.error is not None:
            self._write_error(output, index, buffer, is_known=self._is_known(index))
        elif failed := self._write_value(output, index, buffer):
            self._write_error(output, index, failed, is_known=False)
        if self._untold:
            self._tell_errors()
        table = self._tables.get(output)
        # A resumable table is written by `write_parts` instead.
        if table is not None and table.is_full and not table.is_resumed:
            table.write(table.count)

    def _add_path(self, index: int, buffer: Buffer) -> Buffer:
        """Returns a result with the path of its input, if known."""
        place = index - self._done
        if place < len(self._paths) and not place_of(buffer):
            buffer = buffer.twin()
            buffer.set("path", self._paths[place])
        return buffer

    def _write_value(self, output: str, index: int, buffer: Buffer) -> Buffer | None:
        """Writes a result.

        Returns:
            A buffer in error if the result has no form for this output, or None. The result may be
            any object, whose code may raise anything.
        """
        try:
            line = {"index": index, "output": output, **place_of(buffer)}
            if output in self._folders:
                self._save(output, index, buffer)
            elif output in self._tables:
                self._add_row(output, line, buffer)
            else:
                self._print(output, self._make_line(line, buffer))
        # Errors of the disk, of the reader of a pipe, and of the user are not errors of the item.
        except (BrokenPipeError, ConfigError, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - the item's code, which may raise SystemExit
            failure = FlowUnitError.from_exception(error, node=output, unit="output", phase="write")
            return Buffer.from_error(failure, buffer.meta)
        return None

    def _write_error(self, output: str, index: int, buffer: Buffer, *, is_known: bool) -> None:
        line = {"index": index, "output": output, **place_of(buffer)}
        if not is_known:
            self._untold.append((index, buffer, line))
        if output in self._tables:
            self._tables[output].add(line, None, str(buffer.error), {})
        else:
            self._print(output, {**line, "error": error_fields(buffer)})

    def _tell_errors(self) -> None:
        """Reports errors; with paired outputs, once the input has a result in every output.

        One output may be a hundred results ahead of another. Reported errors must belong to
        finished inputs, because ``--resume`` notes their number.
        """
        through = min(self.counts.values()) if self._is_paired else math.inf
        told = [error for error in self._untold if error[0] < through]
        self._untold = [error for error in self._untold if error[0] >= through]
        for _, buffer, line in told:
            self._errors.add(buffer, line)

    def _save(self, output: str, index: int, buffer: Buffer) -> None:
        folder, (name, data) = self._folders[output], encode_result(index, buffer)
        if self._inputs and name in self._inputs.get(os.path.realpath(folder), ()):
            raise FileExistsError(f"{folder / name} is one of the inputs; give another folder")
        with self._on_written(output, folder):
            write_whole(folder / name, data)
        self._saved[output] += 1

    def _add_row(self, output: str, line: dict[str, Any], buffer: Buffer) -> None:
        is_picture = is_image(buffer)
        meta = {
            key: value for key, value in buffer.meta.items() if key not in ("path", *_OF_IMAGES)
        }
        data = as_png(buffer) if is_picture else buffer.data
        self._tables[output].add(line, data, None, meta, b"png" if is_picture else b"")

    def _make_line(self, line: dict[str, Any], buffer: Buffer) -> dict[str, Any]:
        is_picture = is_image(buffer)
        left_out = {"path"} if is_picture else {"path", *_OF_IMAGES}
        meta = {key: value for key, value in buffer.all_meta().items() if key not in left_out}
        return {**line, "data": self._data(buffer, is_picture), "meta": show_value(meta)}

    def _is_known(self, index: int) -> bool:
        """Notes a failed input; returns whether another output has reported the failure."""
        if not self._is_paired:
            return False
        through = min(self.counts.values())
        self._failed = {row for row in self._failed if row >= through - 1}
        is_known = index in self._failed
        self._failed.add(index)
        return is_known

    @property
    def has_parts(self) -> bool:
        """Whether an output is written in parts."""
        return bool(self._tables)

    @property
    def is_full(self) -> bool:
        """Whether enough results wait to be written."""
        return any(table.is_full for table in self._tables.values())

    def write_parts(self, count: int) -> dict[str, int]:
        """Writes the first waiting results of each output in parts; returns once durable.

        Args:
            count: Number of results of each output.

        Returns:
            Output -> number of its parts now.
        """
        return {port: table.write(count) for port, table in self._tables.items()}

    def size(self, output: str) -> int:
        """Returns the bytes of an output's file, or the number of results in its folder, or 0."""
        file = self._files.get(output)
        return self._saved.get(output, 0) if file is None else file.tell()

    def _data(self, buffer: Buffer, is_picture: bool) -> Any:
        if not is_picture:
            if not (self._is_whole or self._is_short_told) and is_in_short(buffer.data):
                self._tell_short()
            return show_value(buffer.data, is_whole=self._is_whole)
        if self._is_whole:
            return {"png": base64.b64encode(as_png(buffer)).decode()}
        data = buffer.data
        if not self._is_short_told:
            self._tell_short()
        return {
            "dtype": str(data.dtype),
            "shape": list(data.shape),
            "min": data.min().item(),
            "max": data.max().item(),
        }

    def _tell_short(self) -> None:
        self._is_short_told = True
        self._note(
            "JSON lines have large values in short form; --full writes them whole, --output DIR/ a "
            "file each"
        )

    def _print(self, output: str, line: Mapping[str, Any]) -> None:
        data = json_line(line).encode() + b"\n"
        file = self._files.get(output)
        with self._on_written(output, "standard output" if file is None else file.name):
            if file is None:
                sys.stdout.flush()  # the prints of units
                file = sys.stdout.buffer  # JSON is UTF-8, in any locale
            file.write(data)
            file.flush()

    @contextlib.contextmanager
    def _on_written(self, output: str, where: object) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise  # the reader of the pipe has gone
        except OSError as error:
            text, _ = self._texts.get(output, ("-", ""))
            raise ConfigError(
                f"--output {text}: cannot write {where}: {error.strerror or error}"
            ) from error


def _is_folder(where: str) -> bool:
    if where.endswith(os.sep) or os.path.isdir(where):
        return True
    is_device = os.path.exists(where) and not os.path.isfile(where)  # or a pipe
    return not Path(where).suffix and not is_device


def _make_folder(folder: Path, text: str) -> Path:
    """Makes a folder, unless present."""
    with explain_os_error(f"--output {text}: cannot make the folder {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def _open(path: Path, text: str, size: int | None) -> BinaryIO:
    """Opens a new file, or an existing file truncated to ``size`` bytes."""
    anew = "to start again, remove the list that --resume names"
    with explain_os_error(f"--output {text}: cannot write {path}"):
        if not size:
            return path.open("wb")
        try:
            file = path.open("r+b")
        except FileNotFoundError as error:
            raise ConfigError(
                f"--output {text}: {path} is not there any more, and had {size} bytes when the "
                f"job ended; {anew}"
            ) from error
    found = file.seek(0, os.SEEK_END)
    if found < size:
        file.close()
        raise ConfigError(
            f"--output {text}: {path} has {found} bytes, and had {size} when the job ended; {anew}"
        )
    file.truncate(size)
    file.seek(size)
    return file


def targets_of(texts: Sequence[str], outputs: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Parses ``--output PORT=FILE|DIR|-``.

    Returns:
        Output -> the argument, and the file or folder in it.

    Raises:
        ArgumentError: The graph has no such output, or an output is named twice.
    """
    found: dict[str, tuple[str, str]] = {}
    for text in texts:
        port, where = split_port("output", text, outputs)
        if port in found:
            raise ArgumentError(f"--output {text}: output {port!r} is given twice")
        found[port] = (text, where)
    return found
