"""The list of ``modelflow run --resume``, which names the finished inputs of a job.

A line is written after the results of an input. It has the size of each output at that time: the
bytes of a file, or the files or parts in a folder. Inputs whose results went into the same part
have one line together::

    {"done": ["photos/17.jpg"], "sizes": {"output": 4211}}
    {"all": [["photos/17.jpg"], ["photos/18.jpg"]], "sizes": {"output": 3}}

If further inputs have failed, the line also has the total number of errors, and the size of the
file of ``--errors``::

    {"done": ["photos/20.jpg"], "sizes": {...}, "failed": {"errors": 1, "file": "bad", "size": 210}}

After any end of the process, the next run truncates the results to the last of these sizes, and
skips finished inputs. Each input is therefore in the results once. If a process died, the next run
also notes the inputs that the process had in flight::

    {"died": [["photos/19.jpg"]], "run": 2}
"""

import contextlib
import fcntl
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from modelflow.errors import ConfigError, explain_os_error
from modelflow.job.suspects import Key, absolute

# The first bytes of every list.
_START = b'{"job": '
_MOST_RUNS = 1 << 32


class FailedCounts(NamedTuple):
    """The errors among the finished inputs.

    Attributes:
        errors: Number of errors.
        file: The file of the errors, or "" for none.
        size: The bytes of that file.
    """

    errors: int = 0
    file: str = ""
    size: int = 0


_NONE = FailedCounts()


class DoneInputs:
    """The list of finished inputs, in a file that only one run may use at a time.

    Attributes:
        sizes: Output -> size of its results.
        failed: The errors among the finished inputs.
        deaths: Input, by its `absolute` names -> number of processes that died with it in flight.
        is_begun: Whether an earlier run made the list.
        is_changed: Whether that run had another version of the graph.
        run: The number of the last run that is known to have died.
    """

    def __init__(
        self, path: Path, job: Mapping[str, Any], version: str = "", failed: FailedCounts = _NONE
    ) -> None:
        """Reads the list, or makes a new list.

        Args:
            path: The path of the list.
            job: The values that must be equal in all runs.
            version: A hash of the graph. It may change, which sets `is_changed`.
            failed: The file for errors, and its size.

        Raises:
            ConfigError: The list cannot be read or written, has another format, belongs to another
                job, or is in use by another run.
        """
        self._path = path
        self._done: set[Key] = set()
        self.failed = failed
        self.sizes: dict[str, int] = {}
        self.deaths: Counter[Key] = Counter()
        self.run = 0
        self.is_begun = self.is_changed = False
        with explain_os_error(f"--resume {path}: cannot be written"):
            path.touch()
            if not path.is_file():  # a device may have no end
                raise ConfigError(f"--resume {path}: is no file; expected a file, or a free name")
            self._file = path.open("r+b")
        try:
            self._lock()
            self._begin(job, version)
        except BaseException:
            self.close()
            raise

    def _lock(self) -> None:
        """Locks the list for this run; the lock ends with the process."""
        more = "; give a file on a disk with locks, which keep out a second run"
        with explain_os_error(f"--resume {self._path}: cannot be locked", more):
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise ConfigError(
                    f"--resume {self._path}: is in use by another run; wait until that has ended, "
                    "or give this one a list and outputs of its own"
                ) from error

    def _begin(self, job: Mapping[str, Any], version: str) -> None:
        text = self._file.read()
        whole = text[: text.rfind(b"\n") + 1]  # the process may have died in the last line
        lines = whole.splitlines()
        if not lines and text[: len(_START)] != _START[: len(text)]:
            self._refuse(text, 1)  # another file, without a line break
        if lines:
            self._read(lines, job, version)
        self._file.seek(len(whole))
        self._file.truncate()
        if not lines:
            self._write({"job": dict(job), "version": version, "failed": self.failed._asdict()})

    def _read(self, lines: Sequence[bytes], job: Mapping[str, Any], version: str) -> None:
        before = self._parse(lines[0], 1, _is_first)
        self.is_begun = True
        self.failed = before.get("failed", _NONE)
        self.is_changed = before.get("version", version) != version
        if before["job"] != job:
            raise ConfigError(
                f"--resume {self._path}: it is of another job: {json.dumps(before['job'])}; "
                f"expected {json.dumps(job)}; remove the list to start again"
            )
        for number, text in enumerate(lines[1:], 2):
            line = self._parse(text, number, lambda line: _is_of(line, job))
            if "died" in line:
                self.deaths.update(map(absolute, line["died"]))
                self.run = line["run"]
            else:
                done = line["all"] if "all" in line else [line["done"]]
                self._done.update(map(absolute, done))
                self.sizes = line["sizes"]
                self.failed = line.get("failed", self.failed)

    def _parse(
        self, line: bytes, number: int, is_right: Callable[[Mapping[str, Any]], bool]
    ) -> dict[str, Any]:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            found = None
        if not (isinstance(found, dict) and is_right(found)):
            self._refuse(line, number)
        if "failed" in found:
            found["failed"] = FailedCounts(**found["failed"])
        return found

    def _refuse(self, line: bytes, number: int) -> NoReturn:
        raise ConfigError(
            f"--resume {self._path}:{number}: got {line[:60]!r}; expected a list that --resume has "
            "written"
        )

    def forget(self) -> None:
        """Removes a list that this run made, because the run cannot go on."""
        if not self.is_begun:
            self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """Closes the file."""
        with contextlib.suppress(OSError):  # bytes of a failed `_write` are still in the buffer
            self._file.close()

    def __len__(self) -> int:
        return len(self._done)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, tuple) and absolute(key) in self._done

    def add(self, keys: Sequence[Key], sizes: Mapping[str, int], failed: FailedCounts) -> None:
        """Notes that inputs are done; all of them or none. Their results are already written.

        Args:
            keys: The inputs.
            sizes: Output -> size of its results.
            failed: The errors among all finished inputs.
        """
        self._done.update(map(absolute, keys))
        what = {"done": keys[0]} if len(keys) == 1 else {"all": keys}
        told = {"failed": failed._asdict()} if failed != self.failed else {}
        self.failed = failed
        self._write({**what, "sizes": dict(sizes), **told})

    def blame(self, keys: Sequence[Key], run: int) -> None:
        """Notes that a run died with some inputs in flight."""
        self.deaths.update(map(absolute, keys))
        self.run = run
        self._write({"died": keys, "run": run})

    def _write(self, line: Mapping[str, Any]) -> None:
        with explain_os_error(f"--resume {self._path}: cannot be written"):
            self._file.write(json.dumps(line).encode() + b"\n")
            self._file.flush()


def _is_first(line: Mapping[str, Any]) -> bool:
    """Returns whether a line is a valid first line; earlier versions wrote only the job."""
    match line:
        case {"job": dict(), "version": str(), **more}:
            return _has_failed(more)
        case {"job": dict(), **more}:
            return not more
    return False


def _has_failed(more: Mapping[str, Any]) -> bool:
    """Returns whether the rest of a line is empty, or only the entry of errors."""
    match more:
        case {"failed": {"errors": int(errors), "file": str(), "size": int(size), **others}}:
            return not others and len(more) == 1 and errors >= 0 and size >= 0
    return not more


def _is_of(line: Mapping[str, Any], job: Mapping[str, Any]) -> bool:
    """Returns whether a line is a valid later line of a job's list."""
    match line:
        case {"done": key, "sizes": sizes, **more}:
            return _has_failed(more) and _is_key(key) and _are_sizes(sizes, job)
        case {"all": [*keys], "sizes": sizes, **more}:
            return _has_failed(more) and all(map(_is_key, keys)) and _are_sizes(sizes, job)
        case {"died": [*keys], "run": int(run), **more}:
            return not more and all(map(_is_key, keys)) and 0 < run < _MOST_RUNS
    return False


def _is_key(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _are_sizes(value: Any, job: Mapping[str, Any]) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() == job["outputs"].keys()
        and all(type(size) is int and size >= 0 for size in value.values())
    )
