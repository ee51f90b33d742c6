"""``modelflow run --resume``: which inputs are done, so that a job that was cut off goes on.

A line is written behind the results of an input, with the sizes of the files that they went into::

    {"done": ["photos/17.jpg"], "sizes": {"output": 4211}}

Whatever ended the process, the next run cuts those files to the last of these sizes and passes over
what is done: each input is in the results once.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from modelflow.errors import ConfigError

__all__ = ["Finished", "Key"]

Key = tuple[str, ...]
"""An input: the file for each input of the graph."""


class Finished:
    """The inputs of a job that are done, in a file that grows.

    Attributes:
        sizes: By output, the bytes of its results so far.
    """

    def __init__(self, path: Path, job: Mapping[str, Any]) -> None:
        """Reads the list, or begins it.

        Args:
            path: The list.
            job: What must be the same from run to run.

        Raises:
            ConfigError: it cannot be read or written, is no such list, or is one of another job.
        """
        self._path = path
        self._done: set[Key] = set()
        self.sizes: dict[str, int] = {}
        try:
            self._file = path.open("r+b" if path.exists() else "w+b")
        except OSError as error:
            message = f"--resume {path}: cannot be written: {error.strerror or error}"
            raise ConfigError(message) from error
        try:
            self._begin(job)
        except BaseException:
            self._file.close()
            raise

    def _begin(self, job: Mapping[str, Any]) -> None:
        text = self._file.read()
        whole = text[: text.rfind(b"\n") + 1]  # the last line may have been cut off
        lines = [self._parsed(line, number) for number, line in enumerate(whole.splitlines(), 1)]
        self._file.seek(len(whole))
        self._file.truncate()
        if not lines:
            self._write({"job": dict(job)})
            return
        before, *done = lines
        if before["job"] != job:
            message = (
                f"--resume {self._path}: it is of another job: {json.dumps(before['job'])}; "
                f"expected {json.dumps(job)}; remove it to begin anew"
            )
            raise ConfigError(message)
        for line in done:
            self._done.add(tuple(line["done"]))
            self.sizes = line["sizes"]

    def _parsed(self, line: bytes, number: int) -> dict[str, Any]:
        try:
            found = json.loads(line)
        except ValueError as error:
            found = error
        names = {"job"} if number == 1 else {"done", "sizes"}
        if not isinstance(found, dict) or set(found) != names:
            message = (
                f"--resume {self._path}:{number}: got {line[:60]!r}; expected a list that "
                "--resume has written"
            )
            raise ConfigError(message)
        return found

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def __len__(self) -> int:
        return len(self._done)

    def __contains__(self, key: object) -> bool:
        return key in self._done

    def add(self, key: Key, sizes: Mapping[str, int]) -> None:
        """Notes that an input is done; its results have been written."""
        self._done.add(key)
        self._write({"done": key, "sizes": dict(sizes)})

    def _write(self, line: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(line).encode() + b"\n")
        self._file.flush()
