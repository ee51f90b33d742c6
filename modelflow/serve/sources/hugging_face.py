"""A repository of the Hugging Face Hub: ``hf://org/repository[/path][@revision]``."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from modelflow.errors import Cancelled, ConfigError, MissingDependencyError
from modelflow.serve.sources.listing import Listing, OnBytes, RemoteFile, check_files, scrub
from modelflow.serve.sources.web import TIMEOUT

_CHUNK = 1 << 20
_DEFINITE = frozenset({400, 401, 403, 404})


class HubRepository:
    """The files of a repository at a revision, with the token of the environment."""

    def __init__(self, url: str, shown: str) -> None:
        """Parses the URL.

        Raises:
            ConfigError: The URL has another form.
            MissingDependencyError: huggingface_hub is not installed.
        """
        path, _, revision = url.removeprefix("hf://").partition("@")
        parts = path.strip("/").split("/")
        if len(parts) < 2 or not all(parts) or "?" in url:
            raise ConfigError(f"{shown}: expected hf://owner/repository[/path][@revision]")
        self.shown = shown
        self._id, self._path = "/".join(parts[:2]), "/".join(parts[2:])
        self._revision = revision or None
        try:
            import huggingface_hub
        except ImportError as error:
            raise MissingDependencyError("huggingface_hub", "remote", "hf://") from error
        self._hub: Any = huggingface_hub

    def list_files(self) -> Listing:
        """Returns the files at the newest commit of the revision; see `RemoteSource`."""
        with self._explain():
            found = self._hub.HfApi().model_info(
                self._id, revision=self._revision, files_metadata=True, timeout=TIMEOUT
            )
        root = (self._path or self._id).rpartition("/")[2]
        is_file = any(one.rfilename == self._path for one in found.siblings)
        top = self._path.rpartition("/")[0] if is_file else self._path
        prefix = f"{top}/" if top else ""
        files = []
        for one in found.siblings:
            name = one.rfilename.removeprefix(prefix)
            is_mine = one.rfilename.startswith(prefix) and (
                not is_file or ("/" not in name and name.startswith(root.partition(".")[0]))
            )
            if is_mine:
                sha256 = "" if one.lfs is None else one.lfs.sha256
                full = name if is_file else f"{root}/{name}"
                place = f"{self._id}@{found.sha}/{one.rfilename}"
                identity = sha256 or one.blob_id
                files.append(RemoteFile(full, int(one.size), identity, place, sha256))
        return Listing(root, check_files(self.shown, files), found.sha)

    def write(self, file: RemoteFile, path: Path, on_bytes: OnBytes) -> None:
        """Writes a file of the listed commit with one request; see `RemoteSource`."""
        with self._explain():
            store = self._hub.HfFileSystem(skip_instance_cache=True, use_listings_cache=False)
            with store.open(file.place, "rb", block_size=0) as source, path.open("wb") as target:
                while chunk := source.read(_CHUNK):
                    target.write(chunk)
                    on_bytes(len(chunk))

    @contextmanager
    def _explain(self) -> Iterator[None]:
        try:
            yield
        except (ConfigError, Cancelled):
            raise
        except Exception as error:
            if isinstance(error, OSError) and (error.filename or error.errno):
                raise  # of the local disk
            status = getattr(getattr(error, "response", None), "status_code", None)
            first = scrub(error).strip().partition("\n")[0]
            if status in _DEFINITE:
                raise ConfigError(f"{self.shown}: {first}") from error
            raise ConnectionError(first) from error
