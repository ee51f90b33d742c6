"""Unpacks archives into a folder of the user, each once, named by the hash of the contents.

A copy is written next to its final place and renamed when it is complete. An existing copy is
verified before each use, and replaced if it differs. The process that makes a copy holds a lock.
Among the processes of a server, one unpacks and the others wait.
"""

import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from modelflow.archive.archive import Archive
from modelflow.archive.cache import hold, keep_size
from modelflow.archive.manifest import Manifest
from modelflow.errors import ConfigError, explain_os_error

_CHUNK = 1 << 20


def cache_folder() -> Path:
    """Returns the folder that archives are unpacked into; the folder need not exist.

    ``$MODELFLOW_CACHE``, else ``$XDG_CACHE_HOME/modelflow``, else ``~/.cache/modelflow``.

    Raises:
        ConfigError: No variable is set and there is no home folder.
    """
    if given := os.environ.get("MODELFLOW_CACHE"):
        return Path(given).absolute()
    if given := os.environ.get("XDG_CACHE_HOME"):
        return Path(given).absolute() / "modelflow"
    try:
        return Path.home() / ".cache" / "modelflow"
    except RuntimeError as error:
        raise ConfigError(
            "MODELFLOW_CACHE: is not set, and there is no home folder; set it to a folder that "
            "archives may be unpacked into"
        ) from error


def unpack(path: Path) -> tuple[Path, Manifest]:
    """Unpacks an archive if needed, and returns the verified folder and the manifest.

    Safe from any thread and process. Waits while another one unpacks the same archive.

    Raises:
        ConfigError: The file is no archive, differs from its manifest, is for another Python, or
            cannot be unpacked.
    """
    with Archive(path) as archive:
        _check_python(archive)
        place = cache_folder() / "archives" / archive.digest
        more = "; set MODELFLOW_CACHE to a folder on a disk with room that may be written"
        with explain_os_error(f"{path}: cannot be unpacked into {place.parent}", more):
            for folder in (place.parent.parent, place.parent):
                make_private(folder)
            hold(place)
            if not (_is_folder(place) and _is_verified(place, archive.manifest)):
                with _lock(place):
                    # The previous holder of the lock may have made the copy.
                    if not (_is_folder(place) and _is_same(place, archive.manifest)):
                        _replace(place, archive)
                        keep_size(cache_folder())
                        return place, archive.manifest
            archive.verify()
        return place, archive.manifest


def is_unpacked(file: Path) -> bool:
    """Returns True if a file belongs to an unpacked archive."""
    return file.is_relative_to(cache_folder() / "archives")


def _check_python(archive: Archive) -> None:
    import platform

    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    wanted = archive.manifest.python
    try:
        is_right = SpecifierSet(wanted).contains(platform.python_version(), prereleases=True)
    except InvalidSpecifier as error:
        raise ConfigError(
            f"{archive.path}: python: got {wanted!r}; expected versions as in '>=3.11'"
        ) from error
    if not is_right:
        raise ConfigError(
            f"{archive.path}: is for Python {wanted}; this is {platform.python_version()}"
        )


def make_private(folder: Path) -> None:
    """Makes a folder that only this user can write to, because code is run from the folder.

    Raises:
        OSError: The folder cannot be made.
        ConfigError: The folder exists, and others may write to it.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.stat()
    if found.st_uid not in (os.geteuid(), 0) or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ConfigError(
            f"{folder}: others may write to it (mode {stat.S_IMODE(found.st_mode):o}, user "
            f"{found.st_uid}), and units are run from it; expected your own folder of the "
            "mode 700. Remove the folder, or set MODELFLOW_CACHE to another one"
        )


@contextlib.contextmanager
def _lock(place: Path, *, is_shared: bool = False) -> Iterator[None]:
    """Holds the lock of a copy. The lock file is never removed, because others may wait for it."""
    with place.with_name(f"{place.name}.lock").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX)
        yield


def _is_verified(place: Path, manifest: Manifest) -> bool:
    """Verifies a copy under a shared lock, which prevents its replacement."""
    try:
        with _lock(place, is_shared=True):
            return _is_same(place, manifest)
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise
    return _is_same(place, manifest)  # read-only, so no process can replace the copy


def _is_folder(place: Path) -> bool:
    """Returns True for an existing folder that is no link."""
    return place.is_dir() and not place.is_symlink()


def _is_same(place: Path, manifest: Manifest) -> bool:
    """Returns True if a folder contains exactly the unchanged files of an archive."""
    there = set()
    for folder, folders, names in os.walk(place):
        if "__pycache__" in folders:  # Python compiled the modules of the copy
            folders.remove("__pycache__")
            shutil.rmtree(Path(folder, "__pycache__"), ignore_errors=True)
        if any(Path(folder, name).is_symlink() for name in folders):
            return False
        there |= {Path(folder, name).relative_to(place).as_posix() for name in names}
    return there == manifest.files.keys() and all(
        _is_file(place / name, file.size, file.sha256) for name, file in manifest.files.items()
    )


def _is_file(path: Path, size: int, sha256: str) -> bool:
    try:
        # A link or a special file could lead elsewhere.
        if not stat.S_ISREG(path.lstat().st_mode) or path.lstat().st_size != size:
            return False
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == sha256
    except OSError:
        return False


def _replace(place: Path, archive: Archive) -> None:
    """Replaces the copy of an archive; the caller holds its lock."""
    draft, old = place.with_name(f"{place.name}.part"), place.with_name(f"{place.name}.old")
    for left in (draft, old):  # left over from a killed process
        _remove(left)
    try:
        for name in archive.manifest.files:
            path = draft / name
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with path.open("xb") as file:
                for chunk in archive.chunks(name):
                    file.write(chunk)
            path.chmod(0o400)
        if os.path.lexists(place):
            place.rename(old)
        draft.rename(place)
    finally:
        for left in (draft, old):
            _remove(left)


def _remove(path: Path) -> None:
    """Removes a file, a folder or a link; the target of a link stays."""
    if _is_folder(path):
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
