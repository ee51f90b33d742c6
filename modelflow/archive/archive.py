"""Opens and verifies an archive file, without running any of its contents.

An archive is a zip file whose members are stored and are all regular files. The manifest lists each
member with size and hash. Contents that another program might read differently are refused:
duplicate names, overlapping members, links, a comment after the end.
"""

import contextlib
import hashlib
import os
import stat
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NoReturn, Self

from modelflow.archive.manifest import MANIFEST, Manifest, name_problem
from modelflow.errors import ConfigError

MODE = stat.S_IFREG | 0o644
"""The mode of every member."""
MOST_MEMBERS = 20_000
# The most bytes of the table at a zip file's end, and of the manifest.
_MOST_TABLE = 32 << 20
_CHUNK = 1 << 20
# The record at a zip file's end, and the record before it that holds larger numbers.
_END, _END64 = struct.Struct("<4s4H2LH"), struct.Struct("<4sQ2H2L4Q")
_BEGIN = b"PK\3\4"  # the start of a member, and so of every zip file with members
_LOCATOR = 20
_LOCAL_HEADER = 30
_UTF8 = 0x800


class Archive:
    """An open archive whose table and manifest have been checked. For one thread.

    Attributes:
        path: The path of the archive file.
        manifest: The archive's description.
        digest: The hash of the manifest, which depends on all files of the archive.
    """

    def __init__(self, path: Path) -> None:
        """Opens an archive and checks everything except the contents of its files.

        Raises:
            ConfigError: The file is no archive, or differs from archives of ``modelflow pack``.
        """
        self.path = path
        with contextlib.ExitStack() as files:
            self._open(files)
            self._files = files.pop_all()

    def _open(self, files: contextlib.ExitStack) -> None:
        try:
            file = files.enter_context(self.path.open("rb"))
            self._check_end(file)
            self._zip = zipfile.ZipFile(file)
            self._members = self._check_members()
            if MANIFEST not in self._members:
                self._refuse(f"has no {MANIFEST}; expected an archive that 'modelflow pack' wrote")
            if self._members[MANIFEST].file_size > _MOST_TABLE:
                self._refuse(f"{MANIFEST}: has more than {_MOST_TABLE} bytes")
            raw = self._zip.read(MANIFEST)
        except OSError as error:
            raise ConfigError(f"{self.path}: cannot be read: {error.strerror or error}") from error
        except (
            zipfile.BadZipFile,
            NotImplementedError,
            ValueError,
            EOFError,
            struct.error,
        ) as error:
            raise ConfigError(
                f"{self.path}: is no whole archive ({error}); pack the graph again"
            ) from error
        self.digest = hashlib.sha256(raw).hexdigest()
        self.manifest = Manifest.from_bytes(raw, str(self.path))
        self._compare()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file."""
        self._zip.close()
        self._files.close()

    def verify(self) -> None:
        """Reads and verifies every file of the archive.

        Raises:
            ConfigError: A file differs from the manifest.
        """
        for name in self.manifest.files:
            for _ in self.chunks(name):
                pass

    def chunks(self, name: str) -> Iterator[bytes]:
        """Yields a file in pieces, and verifies the file after the last piece.

        Raises:
            ConfigError: The file differs from the manifest, or cannot be read.
        """
        expected, found, size = self.manifest.files[name], hashlib.sha256(), 0
        try:
            with self._zip.open(self._members[name]) as member:
                while chunk := member.read(_CHUNK):
                    size += len(chunk)
                    found.update(chunk)
                    yield chunk
        except (zipfile.BadZipFile, EOFError, ValueError, OSError) as error:
            self._refuse(f"{name}: cannot be read ({error}); copy the archive again")
        if size != expected.size or found.hexdigest() != expected.sha256:
            self._refuse(
                f"{name}: has the sha256 {found.hexdigest()} and {size} bytes; expected "
                f"{expected.sha256} and {expected.size}. It is damaged or changed: copy the "
                "archive again, or pack the graph again"
            )

    def _refuse(self, what: str) -> NoReturn:
        raise ConfigError(f"{self.path}: {what}")

    def _check_end(self, file: BinaryIO) -> None:
        """Checks the size of the table before the table is read."""
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _END.size))
        raw = file.read(_END.size)
        if len(raw) < _END.size or not raw.startswith(b"PK\5\6"):
            file.seek(0)
            if file.read(len(_BEGIN)) == _BEGIN:
                self._refuse(f"is cut off after {size} bytes: it has no end; copy it again")
            self._refuse("is no archive; expected a file that 'modelflow pack' wrote, whole")
        _, _, _, _, count, length, start, _ = _END.unpack(raw)
        if count == 0xFFFF or length == 0xFFFFFFFF or start == 0xFFFFFFFF:
            file.seek(max(0, size - _END.size - _LOCATOR - _END64.size))
            found = _END64.unpack(file.read(_END64.size))
            count, length = found[7], found[8]
        if count > MOST_MEMBERS or length > _MOST_TABLE:
            self._refuse(
                f"names {count} files in {length} bytes; expected at most {MOST_MEMBERS} in "
                f"{_MOST_TABLE}"
            )
        file.seek(0)

    def _check_members(self) -> dict[str, zipfile.ZipInfo]:
        found: dict[str, zipfile.ZipInfo] = {}
        for member in self._zip.infolist():
            if problem := _member_problem(member):
                self._refuse(f"{member.orig_filename!r:.200}: {problem}")
            if member.filename in found:
                self._refuse(f"{member.filename}: is in it twice; pack the graph again")
            found[member.filename] = member
        folders = {str(above) for name in found for above in Path(name).parents}
        if both := sorted(folders & found.keys()):
            self._refuse(f"{both[0]}: is a file and a folder; pack the graph again")
        end = 0
        for member in sorted(found.values(), key=lambda member: member.header_offset):
            if member.header_offset < end:
                self._refuse(f"{member.filename}: overlaps another file; pack the graph again")
            name = len(member.filename.encode())
            end = member.header_offset + _LOCAL_HEADER + name + member.file_size
        if end > self._zip.start_dir:
            self._refuse("a file of it reaches beyond its end; copy the archive again")
        return found

    def _compare(self) -> None:
        """Compares the members with the manifest."""
        files = self.manifest.files
        if unknown := sorted(self._members.keys() - files.keys() - {MANIFEST}):
            self._refuse(f"{unknown[0]}: is not named in {MANIFEST}; pack the graph again")
        if missing := sorted(files.keys() - self._members.keys()):
            self._refuse(f"{missing[0]}: is missing; copy the archive again")
        for name, file in files.items():
            if self._members[name].file_size != file.size:
                self._refuse(
                    f"{name}: has {self._members[name].file_size} bytes; expected {file.size}"
                )


def _member_problem(member: zipfile.ZipInfo) -> str:
    """Returns the problem of a member, or ``""`` if the member is valid."""
    if member.orig_filename != member.filename:
        return "expected UTF-8 without control characters"
    if member.filename != MANIFEST and (problem := name_problem(member.filename)):
        return problem
    mode = member.external_attr >> 16
    if mode != MODE:
        what = "link" if stat.S_ISLNK(mode) else f"mode {mode:o}"
        return f"got a {what}; expected a regular file of the mode {MODE:o}"
    if member.compress_type != zipfile.ZIP_STORED or member.compress_size != member.file_size:
        return "is compressed; expected an uncompressed file, as 'modelflow pack' writes it"
    if member.flag_bits & ~_UTF8:
        return "is encrypted, or without its size; expected a plain file"
    return ""
