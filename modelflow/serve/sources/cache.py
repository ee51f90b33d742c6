"""The cache of remote models: outlines of the files at URLs, and copies of the files in use."""

import contextlib
import fcntl
import hashlib
import json
import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from modelflow.archive.cache import hold, prune, release
from modelflow.archive.unpack import cache_folder, make_private
from modelflow.errors import Cancelled, ConfigError, explain_os_error
from modelflow.log import LEVELS
from modelflow.quantities import count_of
from modelflow.serve.sources.listing import Listing, RemoteFile, RemoteSource
from modelflow.serve.sources.url import open_source, strip_user

logger = logging.getLogger(__name__)

_KIND = "models"  # the folder in the cache
# Graphs, units and descriptions that a scan reads.
_READ = frozenset({".toml", ".yaml", ".yml", ".json", ".dot", ".gv"})
_MOST_READ = 1 << 20
_PROGRESS_SECONDS = 5.0
_WAIT_SECONDS = 0.2
_KEPT = 3  # outlines of a URL


class Found(NamedTuple):
    """The files at a URL as last seen.

    Attributes:
        cache: The cache.
        url: The URL, with the query but without credentials.
        source: The source.
        listing: The files. None if they are unknown.
        outline: The folder of the outline.
        error: The reason for unknown files, or ``""``.
    """

    cache: "SourceCache"
    url: str
    source: RemoteSource
    listing: Listing | None
    outline: Path
    error: str = ""

    @property
    def path(self) -> Path:
        """Returns the path of the outline's graph, model or folder."""
        return self.outline if self.listing is None else self.outline / self.listing.root

    def copy_of(self, paths: Collection[Path]) -> "RemoteCopy":
        """Returns the copy of files and folders of the outline, which is not written yet.

        Raises:
            ConfigError: None of the paths exists.
        """
        names = [path.relative_to(self.outline).as_posix() for path in paths]
        files = () if self.listing is None else self.listing.files
        mine = tuple(
            file
            for file in files
            if any(file.name == name or file.name.startswith(f"{name}/") for name in names)
        )
        if not mine:
            raise ConfigError(f"{self.source.shown}: has no {', '.join(names)}")
        return RemoteCopy(self, mine)


@dataclass(frozen=True, slots=True)
class _Saved:
    """The last listing of a URL, for a start without the network."""

    listing: Listing
    fetched: str


class SourceCache:
    """The cache of the models at URLs. From any thread."""

    def __init__(self, folder: Path | None = None, most_bytes: int | None = None) -> None:
        """Stores the folder, and creates nothing yet.

        Args:
            folder: The folder of the cache. None for `modelflow.archive.unpack.cache_folder`.
            most_bytes: The most bytes of all copies. A copy in use stays. None for no limit.
        """
        self._given = folder
        self.most_bytes = most_bytes
        self.failures: dict[str, int] = {}
        self._found: dict[str, Found] = {}
        self._warned: dict[str, str] = {}
        self._lock = threading.Lock()

    @property
    def folder(self) -> Path:
        """Returns the folder of the outlines and copies."""
        return (self._given or cache_folder()) / _KIND

    def find(self, url: str) -> Found:
        """Returns the files at a URL as last listed, and lists them at the first call.

        Raises:
            ConfigError: The URL has another form, or the cache cannot be written.
            MissingDependencyError: A package for the scheme is not installed.
        """
        found = self._found.get(url)  # without the lock, because the server's thread calls this
        if found is not None:
            return found
        with self._lock:
            return self._look(url)

    def look_again(self) -> None:
        """Lists the files of every known URL again.

        Raises:
            ConfigError: The cache cannot be written.
        """
        for url in [*self._found]:
            with self._lock:
                self._look(url)

    def _look(self, url: str) -> Found:
        before = self._found.get(url)
        source = open_source(url) if before is None else before.source
        more = "; set --cache-dir to a folder on a disk with room that may be written"
        with explain_os_error(f"{source.shown}: the cache {self.folder} cannot be written", more):
            make_private(self.folder)
        key = hashlib.sha256(url.encode()).hexdigest()[:16]
        saved = self._read_saved(key)
        try:
            listing = source.list_files()
        except ConfigError as error:
            found = self._note_absent(url, source, key, str(error))
        except OSError as error:
            found = self._find_offline(url, source, key, saved, str(error))
        else:
            self._warned.pop(key, None)
            found = self._note(url, source, key, listing)
            if saved is None or saved.listing != listing:
                self._save(key, listing)
        self._found[url] = found
        return found

    def _find_offline(
        self, url: str, source: RemoteSource, key: str, saved: _Saved | None, error: str
    ) -> Found:
        text = f"{source.shown}: {error}"
        if saved is None:
            return self._note_absent(url, source, key, text)
        if self._warned.get(key) != text:  # once, not at every scan
            logger.warning(
                "%s; the files of %s count (revision %s), as far as they are in the cache",
                *(text, saved.fetched, _revision_of(saved.listing)),
            )
        self._warned[key] = text
        return self._note(url, source, key, saved.listing)

    def _note(self, url: str, source: RemoteSource, key: str, listing: Listing) -> Found:
        """Returns the files of a listing, after their outline is written."""
        digest = _digest(listing.files)
        place = self.folder / f"{key}-{digest}.outline"
        if not place.is_dir():
            draft = self.folder / f"{key}-{digest}.{os.getpid()}.{threading.get_ident()}.part"
            try:
                with explain_os_error(f"{source.shown}: cannot be read into {draft}"):
                    self._write_outline(source, listing, draft)
                with contextlib.suppress(OSError):  # another process has written it meanwhile
                    draft.rename(place)
                self._remove_old(key)
            except ConfigError as error:
                return self._note_absent(url, source, key, str(error))
            finally:
                shutil.rmtree(draft, ignore_errors=True)
        return Found(self, strip_user(url), source, listing, place)

    def _note_absent(self, url: str, source: RemoteSource, key: str, error: str) -> Found:
        """Returns unknown files, with the reason."""
        absent = self.folder / f"{key}.absent"
        return Found(self, strip_user(url), source, None, absent, error)

    def _remove_old(self, key: str) -> None:
        """Removes all outlines of a URL but the newest, which other processes may read."""
        found = sorted(self.folder.glob(f"{key}-*.outline"), key=lambda one: one.stat().st_mtime)
        for old in found[:-_KEPT]:
            shutil.rmtree(old, ignore_errors=True)

    def _write_outline(self, source: RemoteSource, listing: Listing, draft: Path) -> None:
        for file in listing.files:
            path = draft / file.name
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.touch()
            if path.suffix.lower() in _READ:
                limit = _Head()
                with contextlib.suppress(_HeadRead):
                    source.write(file, path, limit.count)

    def _listing_file(self, key: str) -> Path:
        return self.folder / f"{key}.listing"

    def _read_saved(self, key: str) -> _Saved | None:
        try:
            found: dict[str, Any] = json.loads(self._listing_file(key).read_text())
            files = tuple(RemoteFile(**one) for one in found["files"])
            return _Saved(Listing(found["root"], files, found["revision"]), found["fetched"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError) as error:
            text = "%s: is no listing (%s), and is written again"
            logger.warning(text, self._listing_file(key), error)
            return None

    def _save(self, key: str, listing: Listing) -> None:
        now = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime())
        text = json.dumps({**asdict(listing), "fetched": now})
        draft = self.folder / f"{key}.{os.getpid()}.{threading.get_ident()}.part"
        with explain_os_error(f"{draft}: cannot be written"):
            draft.write_text(text)
            draft.rename(self._listing_file(key))


class RemoteCopy:
    """The copy of a version in the cache. `fetch` and `release` are for any thread.

    Attributes:
        stamp: A value that changes with the files, and after a failed copy.
        revision: The revision of the files, for messages.
    """

    def __init__(self, found: Found, files: tuple[RemoteFile, ...]) -> None:
        """Stores the files, and copies nothing yet.

        Args:
            found: The files at the URL.
            files: The files of this version among them.
        """
        assert found.listing is not None  # the version was found among the files
        self._cache = cache = found.cache
        self._outline = found.outline
        self._source = found.source
        self._files = files
        self._key = _digest(files, found.url)
        self._place = cache.folder / self._key
        self.revision = _revision_of(found.listing)
        self.stamp = self._key, cache.failures.get(self._key, 0)

    def locate(self, path: Path) -> Path:
        """Returns the path in the copy, which `fetch` writes, for a path in the outline."""
        return self._place / path.relative_to(self._outline)

    def fetch(self, check: Callable[[], object]) -> None:
        """Copies the files, unless the cache has them. The copy then stays until `release`.

        Args:
            check: Called between chunks. May raise to end the copy.

        Raises:
            ConfigError: The files have changed or cannot be read, or the disk is full.
        """
        try:
            with explain_os_error(f"{self._source.shown}: cannot be copied into {self._place}"):
                hold(self._place)
                try:
                    self._fetch(check)
                except BaseException:
                    release(self._place)
                    raise
        except ConfigError:
            self._cache.failures[self._key] = self._cache.failures.get(self._key, 0) + 1
            raise

    def release(self) -> None:
        """Allows the removal of the copy, after as many calls as of `fetch`."""
        release(self._place)

    def _fetch(self, check: Callable[[], object]) -> None:
        how = "from the cache"
        if not self._is_whole():
            with self._lock(check):
                if not self._is_whole():  # else another process has copied it meanwhile
                    began = time.monotonic()
                    self._copy(check)
                    how = f"copied in {time.monotonic() - began:.1f} s"
        logger.log(
            LEVELS["NOTICE"],
            *("%s: revision %s, %s, %s", self._source.shown, self.revision, self._size(), how),
            extra={"is_single": how != "from the cache"},
        )

    def _size(self) -> str:
        total = sum(file.size for file in self._files)
        return f"{count_of(len(self._files), 'file')} of {total / 1e6:.1f} MB"

    def _is_whole(self) -> bool:
        """Tells whether the copy exists. A power failure may have left it with other sizes."""
        try:
            return all((self._place / one.name).stat().st_size == one.size for one in self._files)
        except FileNotFoundError:
            return False

    @contextlib.contextmanager
    def _lock(self, check: Callable[[], object]) -> Iterator[None]:
        """Holds the lock of the copy, which the kernel frees if its process ends."""
        with self._place.with_suffix(".lock").open("ab") as file:
            is_told = False
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if not is_told:
                        logger.log(
                            LEVELS["NOTICE"],
                            *("%s: waits for another copy of these files", self._source.shown),
                            extra={"is_single": True},
                        )
                    is_told = True
                    # A wait for a file lock cannot be woken, and an unwanted load must end.
                    check()
                    time.sleep(_WAIT_SECONDS)
            yield

    def _copy(self, check: Callable[[], object]) -> None:
        self._make_room()
        draft = self._place.with_suffix(".part")
        shutil.rmtree(draft, ignore_errors=True)  # left over from a killed process
        progress = _Progress(self._source.shown, sum(one.size for one in self._files), check)
        try:
            for file in self._files:
                path = draft / file.name
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._source.write(file, path, progress.count)
                _verify(self._source.shown, file, path)
            shutil.rmtree(self._place, ignore_errors=True)  # not whole
            draft.rename(self._place)
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def _make_room(self) -> None:
        size, most = sum(one.size for one in self._files), self._cache.most_bytes
        if most is not None:
            if size > most:
                raise ConfigError(
                    f"{self._source.shown}: {self._size()}; --cache-size allows {most / 1e6:.1f} MB"
                )
            folder = self._cache.folder.parent
            for old in prune(folder, most_bytes=most - size, now=time.time(), kind=_KIND):
                logger.info("%s: removed for --cache-size", old.path)
        free = shutil.disk_usage(self._cache.folder).free
        if size > free:
            raise ConfigError(
                f"{self._source.shown}: {self._size()}; the disk of {self._cache.folder} has "
                f"{free / 1e6:.1f} MB left; set --cache-dir to a folder on another disk"
            )


class _HeadRead(Cancelled):
    """The signal that enough of a file is read."""


class _Head:
    """A count of bytes that ends the read of a file at its limit."""

    def __init__(self) -> None:
        self._bytes = 0

    def count(self, size: int) -> None:
        """Adds bytes."""
        self._bytes += size
        if self._bytes >= _MOST_READ:
            raise _HeadRead


class _Progress:
    """The log of a long copy."""

    def __init__(self, shown: str, total: int, check: Callable[[], object]) -> None:
        self._shown, self._total, self._check = shown, total, check
        self._bytes, self._told = 0, time.monotonic()

    def count(self, size: int) -> None:
        """Adds bytes, and logs them every few seconds."""
        self._check()
        self._bytes += size
        now = time.monotonic()
        if now - self._told >= _PROGRESS_SECONDS:
            self._told = now
            logger.log(
                LEVELS["NOTICE"],
                *("%s: %.1f of %.1f MB", self._shown, self._bytes / 1e6, self._total / 1e6),
                extra={"is_single": True},
            )


def _verify(shown: str, file: RemoteFile, path: Path) -> None:
    """Checks the size and the hash of a written file, and flushes the file to the disk."""
    size = path.stat().st_size
    if size != file.size:
        raise ConfigError(f"{shown}: {file.name} ended after {size} of {file.size} bytes")
    with path.open("rb") as written:
        os.fsync(written.fileno())
        for kind, expected in (("sha256", file.sha256), ("md5", file.md5)):
            written.seek(0)
            if expected and (got := hashlib.file_digest(written, kind).hexdigest()) != expected:
                raise ConfigError(f"{shown}: {file.name} has the {kind} {got}; expected {expected}")
    path.chmod(0o400)


def _revision_of(listing: Listing) -> str:
    return listing.revision.strip('"') or f"files {_digest(listing.files)[:12]}"


def _digest(files: tuple[RemoteFile, ...], *more: str) -> str:
    text = json.dumps([[[one.name, one.size, one.identity] for one in files], *more])
    return hashlib.sha256(text.encode()).hexdigest()[:32]
