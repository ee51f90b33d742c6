"""Files in a bucket: ``s3://`` by s3fs, and ``gs://`` by gcsfs."""

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from modelflow.errors import Cancelled, ConfigError, MissingDependencyError
from modelflow.serve.sources.listing import (
    MOST_FILES,
    Listing,
    OnBytes,
    RemoteFile,
    check_files,
    scrub,
)
from modelflow.serve.sources.web import TIMEOUT

_PACKAGES = {"s3": "s3fs", "gs": "gcsfs"}
_OPTIONS = {
    "s3": {
        "config_kwargs": {
            "connect_timeout": TIMEOUT,
            "read_timeout": TIMEOUT,
            "retries": {"max_attempts": 2},
        }
    },
    "gs": {},
}


class Bucket:
    """A file or a folder in a bucket, with the credentials of the environment."""

    def __init__(self, url: str, shown: str) -> None:
        """Stores the URL.

        Raises:
            ConfigError: The URL has another form.
            MissingDependencyError: The package for the scheme is not installed.
        """
        self._scheme, _, path = url.partition("://")
        if "?" in path or "#" in path or "@" in path.partition("/")[0] or not path.strip("/"):
            raise ConfigError(f"{shown}: expected {self._scheme}://bucket/path alone")
        self.shown = shown
        self._path = path.rstrip("/")
        try:
            import fsspec

            kind = fsspec.get_filesystem_class(self._scheme)
        except ImportError as error:
            package = _PACKAGES[self._scheme]
            raise MissingDependencyError(package, "remote", f"{self._scheme}://") from error
        self._make = kind

    def list_files(self) -> Listing:
        """Returns the file, or the files of the folder; see `RemoteSource`."""
        parent, _, root = self._path.rpartition("/")
        with self._explain():
            store = self._open()
            info = store.info(self._path)
            if info["type"] == "file":
                stem = root.partition(".")[0]
                found = store.find(parent, prefix=stem, detail=True).values() if parent else [info]
            else:
                found = list(self._walk(store))
        base = len(f"{parent}/") if parent else 0
        files = [_file(one, one["name"][base:]) for one in found]
        if info["type"] == "file":  # weights beside a model begin with its name, too
            files = [one for one in files if "/" not in one.name]
        mine = next((one for one in files if one.name == root), None)
        return Listing(root, check_files(self.shown, files), "" if mine is None else mine.identity)

    def write(self, file: RemoteFile, path: Path, on_bytes: OnBytes) -> None:
        """Writes a file with one request; see `RemoteSource`."""
        from fsspec import Callback

        class Progress(Callback):  # type: ignore[misc]
            """Passes the number of bytes on."""

            def relative_update(self, inc: int = 1) -> None:
                on_bytes(inc)

        with self._explain():
            store = self._open()
            store.get_file(file.place, str(path), callback=Progress())
            now = _file(store.info(file.place), file.name)
        if now.identity != file.identity:
            raise ConfigError(f"{self.shown}: {file.name} has changed while it was copied")

    def _open(self) -> Any:
        given: dict[str, Any] = _OPTIONS[self._scheme]
        return self._make(use_listings_cache=False, skip_instance_cache=True, **given)

    def _walk(self, store: Any) -> Iterator[dict[str, Any]]:
        count = 0
        for _, _, files in store.walk(self._path, maxdepth=16, detail=True):
            for name, one in files.items():
                count += 1
                if count > MOST_FILES:
                    return  # one more than the limit, which `check_files` reports
                if name and not one["name"].endswith("/"):  # else the marker of a folder
                    yield one

    @contextmanager
    def _explain(self) -> Iterator[None]:
        try:
            yield
        except (ConfigError, Cancelled):
            raise
        except (FileNotFoundError, PermissionError) as error:
            reason = scrub(error) if isinstance(error, PermissionError) else "no such file"
            raise ConfigError(f"{self.shown}: {reason}") from error
        except OSError as error:
            if error.filename is not None or error.errno is not None:
                raise  # of the local disk
            raise ConnectionError(scrub(error)) from error
        except Exception as error:
            raise ConnectionError(scrub(error)) from error


def _file(info: dict[str, Any], name: str) -> RemoteFile:
    identity = str(info.get("ETag") or info.get("etag") or info.get("generation") or "")
    md5 = base64.b64decode(info["md5Hash"]).hex() if info.get("md5Hash") else ""
    return RemoteFile(name, int(info["size"]), identity, info["name"], md5=md5)
