"""An artifact of an OCI registry, ``oci://registry/repository:tag``, for anonymous readers."""

import hashlib
import json
import re
import urllib.error
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from modelflow.errors import ConfigError
from modelflow.serve.sources.listing import Listing, OnBytes, RemoteFile, check_files
from modelflow.serve.sources.web import check_encrypted, explain_web, open_url, save

_FORM = re.compile(
    r"oci://(?P<host>[\w.-]+(?::\d+)?)/(?P<repository>[a-z0-9][a-z0-9._/-]*?)"
    r"(?P<reference>:[\w][\w.-]*|@sha256:[0-9a-f]{64})\Z"
)
_TITLE = "org.opencontainers.image.title"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_MOST = 4 << 20  # bytes of a manifest or a token
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}\Z")


class RegistryArtifact:
    """The files of an OCI artifact: its layers with a title."""

    def __init__(self, url: str, shown: str) -> None:
        """Parses the URL.

        Raises:
            ConfigError: The URL has another form.
        """
        found = _FORM.match(url)
        if found is None:
            raise ConfigError(f"{shown}: expected oci://registry/repository:tag, or @sha256:...")
        self.shown = shown
        host, self._reference = found["host"], found["reference"][1:]
        self._repository = found["repository"]
        is_local = host.partition(":")[0] in ("localhost", "127.0.0.1")
        self._base = f"{'http' if is_local else 'https'}://{host}/v2/{self._repository}"
        self._token = ""

    def list_files(self) -> Listing:
        """Returns the titled layers of the manifest; see `RemoteSource`."""
        url = f"{self._base}/manifests/{self._reference}"
        with self._open(url, {"Accept": _MANIFEST}) as answer:
            text = answer.read(_MOST)
        digest = f"sha256:{hashlib.sha256(text).hexdigest()}"
        told = answer.headers.get("Docker-Content-Digest", digest)
        if told != digest or (":" in self._reference and digest != self._reference):
            raise ConfigError(f"{self.shown}: got a manifest of {digest}; expected {told}")
        try:
            layers = json.loads(text)["layers"]
            files = [
                RemoteFile(one["annotations"][_TITLE], int(one["size"]), one["digest"])
                for one in layers
            ]
            hashes = [_DIGEST.match(file.identity) for file in files]
        except (ValueError, TypeError, KeyError) as error:
            raise ConfigError(
                f"{self.shown}: expected an OCI artifact, whose layers have a digest, a size and "
                f"the annotation {_TITLE} (oras push); a container image is none"
            ) from error
        if not all(hashes):
            raise ConfigError(f"{self.shown}: a layer has no digest sha256:...")
        return self._list(files, digest)

    def _list(self, files: list[RemoteFile], digest: str) -> Listing:
        is_single = len(files) == 1 and "/" not in files[0].name
        name = self._repository.rpartition("/")[2]
        prefix = "" if is_single else f"{name}/"
        found = [
            RemoteFile(f"{prefix}{one.name}", one.size, one.identity, sha256=one.identity[7:])
            for one in files
        ]
        root = files[0].name if is_single else name
        return Listing(root, check_files(self.shown, found), digest)

    def write(self, file: RemoteFile, path: Path, on_bytes: OnBytes) -> None:
        """Writes a layer, whose digest the cache verifies; see `RemoteSource`."""
        with self._open(f"{self._base}/blobs/{file.identity}", {}) as answer:
            save(answer, path, on_bytes)

    @contextmanager
    def _open(self, url: str, headers: Mapping[str, str]) -> Iterator[HTTPResponse]:
        """Yields the reply, with a new token if the registry demands a token."""
        with explain_web(self.shown):
            try:
                reply = open_url(url, self._with_token(headers))
                answer = reply.__enter__()
            except urllib.error.HTTPError as error:
                if error.code != 401:
                    raise
                error.close()  # it holds the connection
                self._token = self._ask_token(error.headers.get("WWW-Authenticate", ""))
                reply = open_url(url, self._with_token(headers))
                answer = reply.__enter__()
            with answer:
                yield answer

    def _with_token(self, headers: Mapping[str, str]) -> dict[str, str]:
        return {**headers, **({"Authorization": f"Bearer {self._token}"} if self._token else {})}

    def _ask_token(self, challenge: str) -> str:
        asked = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
        realm = asked.pop("realm", "")
        if not challenge.startswith("Bearer ") or urlsplit(realm).scheme not in ("http", "https"):
            raise ConfigError(f"{self.shown}: the registry asks for a login; expected a public one")
        check_encrypted(realm, self.shown)
        with open_url(f"{realm}?{urlencode(asked)}") as answer:
            found: Any = json.loads(answer.read(_MOST))
        return str(found.get("token") or found.get("access_token") or "")
