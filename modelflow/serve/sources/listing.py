"""The files at a URL, and the contract of a `RemoteSource`."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from modelflow.archive.manifest import name_problem
from modelflow.errors import ConfigError

MOST_FILES = 20_000
"""The most files at a URL."""

OnBytes = Callable[[int], object]
"""A callback for each written chunk, with its number of bytes. May raise to end the copy."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file at a URL.

    Attributes:
        name: The name below the folder of the outline, with ``/`` between its parts.
        size: The size in bytes.
        identity: A text that changes with the contents: an ETag or a hash.
        place: The name by which the source finds the contents.
        sha256: The hash of the contents, or ``""`` if the source gives none.
        md5: The MD5 hash of the contents, or ``""`` if the source gives none.
    """

    name: str
    size: int
    identity: str
    place: str = ""
    sha256: str = ""
    md5: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """The files at a URL at a moment.

    Attributes:
        root: The name of the file or folder that the URL names.
        files: The files. Their names begin with ``root``, except for weights beside a file.
        revision: A text for messages: a commit, a digest or an ETag. May be ``""``.
    """

    root: str
    files: tuple[RemoteFile, ...]
    revision: str = ""


class RemoteSource(Protocol):
    """A place with files. Used from threads, one call at a time for each thread."""

    shown: str
    """The URL for messages, without credentials and query."""

    def list_files(self) -> Listing:
        """Returns the files at the URL now.

        Raises:
            ConfigError: The source answers that the files do not exist or may not be read.
            OSError: The source cannot be reached.
        """

    def write(self, file: RemoteFile, path: Path, on_bytes: OnBytes) -> None:
        """Writes the contents of a file to a path.

        Raises:
            ConfigError: The file has gone, or has changed since it was listed.
            OSError: The source cannot be reached, or the path cannot be written.
        """


def check_files(shown: str, files: Iterable[RemoteFile]) -> tuple[RemoteFile, ...]:
    """Returns the files without hidden files, in the order of their names.

    Raises:
        ConfigError: There are too many files, or a name leads elsewhere.
    """
    found: dict[str, RemoteFile] = {}
    for file in files:
        if any(part[:1] == "." and part.strip(".") for part in file.name.split("/")):
            continue
        if problem := name_problem(file.name):
            raise ConfigError(f"{shown}: file {file.name!r:.200}: {problem}")
        found[file.name] = file
        if len(found) > MOST_FILES:
            raise ConfigError(f"{shown}: more than {MOST_FILES} files; name a folder with fewer")
    for name in found:
        parts = name.split("/")
        if any("/".join(parts[:count]) in found for count in range(1, len(parts))):
            raise ConfigError(f"{shown}: {name!r:.200} is below a file; expected a folder there")
    if not found:
        raise ConfigError(f"{shown}: no files there; expected a graph, a model or a folder of them")
    return tuple(found[name] for name in sorted(found))


def scrub(text: object) -> str:
    """Returns the text of an error without credentials: no user and no query in its URLs."""
    without_user = re.sub(r"//[^/@\s]+@", "//", str(text))
    return re.sub(r"(://[^\s?'\"]+)\?[^\s'\"]+", r"\1", without_user)
