"""Archives unpacked into a folder of the user's, each once, under the hash of what is in it.

A copy is made beside its place and renamed when it is whole. A copy that is there is verified each
time that it is used, and made anew where it differs. Who makes one holds its lock, so that of the
processes of one server one unpacks and the others wait.
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
    """Returns the folder that archives are unpacked into; it need not be there.

    ``$MODELFLOW_CACHE``, else ``$XDG_CACHE_HOME/modelflow``, else ``~/.cache/modelflow``.

    Raises:
        ConfigError: nothing says where it is.
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
    """Returns the folder that holds what is in an archive, all of it verified, and its manifest.

    From any thread and process; waits while another one unpacks the same.

    Raises:
        ConfigError: it is no archive, or not as its manifest says; it is for another Python; or it
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
                    # Whoever held the lock before may have made it.
                    if not (_is_folder(place) and _is_same(place, archive.manifest)):
                        _replace(place, archive)
                        keep_size(cache_folder())
                        return place, archive.manifest
            archive.verify()
        return place, archive.manifest


def is_unpacked(file: Path) -> bool:
    """Tells whether a file is one of an archive that was unpacked."""
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
    """Makes a folder that nobody else may write to: code is run from it.

    Raises:
        OSError: it cannot be made.
        ConfigError: it is there, and others may write to it.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.stat()
    if found.st_uid not in (os.geteuid(), 0) or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ConfigError(
            f"{folder}: others may write to it (mode {stat.S_IMODE(found.st_mode):o}, user "
            f"{found.st_uid}), and units are run from it; expected a folder of your own of the "
            "mode 700: remove it, or set MODELFLOW_CACHE to another"
        )


@contextlib.contextmanager
def _lock(place: Path, *, is_shared: bool = False) -> Iterator[None]:
    """Holds the lock of a copy; its file stays, for others may be waiting for it."""
    with place.with_name(f"{place.name}.lock").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX)
        yield


def _is_verified(place: Path, manifest: Manifest) -> bool:
    """Verifies a copy while nobody replaces it."""
    try:
        with _lock(place, is_shared=True):
            return _is_same(place, manifest)
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise
    return _is_same(place, manifest)  # nobody can write there


def _is_folder(place: Path) -> bool:
    """Tells whether a folder is there, not a link to one."""
    return place.is_dir() and not place.is_symlink()


def _is_same(place: Path, manifest: Manifest) -> bool:
    """Tells whether a folder holds the files of an archive, each as it was, and no other."""
    there = set()
    for folder, folders, names in os.walk(place):
        if "__pycache__" in folders:  # what Python made of the modules there
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
        # Neither a link nor anything else that may lead elsewhere.
        if not stat.S_ISREG(path.lstat().st_mode) or path.lstat().st_size != size:
            return False
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == sha256
    except OSError:
        return False


def _replace(place: Path, archive: Archive) -> None:
    """Makes the copy of an archive anew; its lock is held."""
    draft, old = place.with_name(f"{place.name}.part"), place.with_name(f"{place.name}.old")
    for left in (draft, old):  # of a process that was killed
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
    """Removes what is there; of a link that alone, not what it leads to."""
    if _is_folder(path):
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
