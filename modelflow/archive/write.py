"""Writes archives: the same files give the same bytes."""

import hashlib
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from modelflow.archive.archive import MODE, MOST_MEMBERS, Archive
from modelflow.archive.manifest import MANIFEST, Manifest, PackedFile, name_problem
from modelflow.archive.suffix import SUFFIX, is_archive_file
from modelflow.errors import ConfigError, explain_os_error
from modelflow.files.whole_file import remove_drafts, whole_file

Content = Path | bytes
"""The content of a file in an archive: a file on disk, or the bytes themselves."""

_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest time of the zip format
_CHUNK = 1 << 20


def check_target(target: Path) -> None:
    """Checks that an archive may be written at a path.

    Raises:
        ConfigError: The suffix is wrong, or the path exists and is no archive of modelflow.
    """
    if not is_archive_file(target):
        raise ConfigError(f"-o {target}: got the suffix {target.suffix!r}; expected {SUFFIX}")
    if target.exists():
        try:
            Archive(target).close()
        except ConfigError as error:
            raise ConfigError(
                f"-o {target}: exists, is no complete archive, and is not overwritten "
                f"({error}); remove it, or choose another name"
            ) from error


def write_archive(
    target: Path,
    manifest: Manifest,
    contents: Mapping[str, Content],
    on_bytes: Callable[[int], None] = lambda _: None,
) -> Manifest:
    """Writes an archive completely or not at all, and removes leftovers of killed processes.

    Args:
        target: The path of the archive.
        manifest: The archive's description, whose ``files`` are filled in.
        contents: The files by their names in the archive.
        on_bytes: Called with the number of bytes that were read or written since the last call.
            The bytes of each file are read first, and then written.

    Returns:
        The manifest as written.

    Raises:
        ConfigError: A file has a name that is not allowed in an archive, cannot be read, or changes
            meanwhile. Also raised if the manifest is invalid, the target cannot be written, or
            `check_target` fails.
    """
    check_target(target)
    for name in contents:
        if problem := name_problem(name):
            raise ConfigError(f"{name!r}: cannot be packed: {problem}; rename it")
    if len(contents) >= MOST_MEMBERS:
        raise ConfigError(
            f"the graph has {len(contents)} files; expected fewer than {MOST_MEMBERS}: keep data "
            "outside of the folders of its units and models"
        )
    manifest = replace(
        manifest, files={name: _pack(contents[name], on_bytes) for name in sorted(contents)}
    )
    Manifest.from_bytes(manifest.to_bytes(), f"-o {target}")  # raises for an unreadable manifest
    with explain_os_error(f"-o {target}: cannot be written"):
        if target.parent.is_dir():
            remove_drafts(target.parent, target)
        with whole_file(target) as file:
            _write(file, manifest, contents, on_bytes)
    return manifest


def _write(
    file: BinaryIO,
    manifest: Manifest,
    contents: Mapping[str, Content],
    on_bytes: Callable[[int], None],
) -> None:
    said = manifest.to_bytes()
    everything = {**contents, MANIFEST: said}
    files = {**manifest.files, MANIFEST: _pack(said, on_bytes)}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(everything):
            member = zipfile.ZipInfo(name, _TIME)
            member.external_attr = MODE << 16
            member.create_system = 3  # always Unix, to give the same bytes on every system
            member.file_size = files[name].size
            found, size = hashlib.sha256(), 0
            with archive.open(member, "w") as packed:
                for chunk in _chunks(everything[name]):
                    size += len(chunk)
                    if size > member.file_size:
                        break
                    found.update(chunk)
                    packed.write(chunk)
                    on_bytes(len(chunk))
            if PackedFile(size, found.hexdigest()) != files[name]:
                raise ConfigError(f"{name}: was changed while it was packed; pack again")


def _pack(content: Content, on_bytes: Callable[[int], None]) -> PackedFile:
    found, size = hashlib.sha256(), 0
    for chunk in _chunks(content):
        size += len(chunk)
        found.update(chunk)
        on_bytes(len(chunk))
    return PackedFile(size, found.hexdigest())


def _chunks(content: Content) -> Iterator[bytes]:
    if isinstance(content, bytes):
        yield content
        return
    with explain_os_error(f"{content}: cannot be packed"), content.open("rb") as file:
        while chunk := file.read(_CHUNK):
            yield chunk
