"""The URLs of models: their schemes and their text without credentials."""

import contextlib
import re
from importlib import import_module
from pathlib import PurePosixPath
from typing import Any, TypeGuard
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from modelflow.errors import ConfigError, did_you_mean
from modelflow.serve.sources.listing import RemoteSource

# Imported when first used, because some need packages of the extra ``remote``.
_SOURCES = {
    "s3": ("buckets", "Bucket"),
    "gs": ("buckets", "Bucket"),
    "hf": ("hugging_face", "HubRepository"),
    "https": ("web", "WebFile"),
    "http": ("web", "WebFile"),
    "oci": ("registry", "RegistryArtifact"),
}
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def is_url(origin: object) -> TypeGuard[str]:
    """Tells whether a source is a URL, and not a path."""
    return isinstance(origin, str) and _SCHEME.match(origin) is not None


def split_url(url: str) -> SplitResult:
    """Returns the parts of a URL.

    Raises:
        ConfigError: The host cannot be read. The message has no part of the URL, which may have a
            password.
    """
    with contextlib.suppress(ValueError):
        parts = urlsplit(url)
        _ = parts.port  # raises as well
        if parts.path or "@" not in parts.query + parts.fragment:
            return parts
    scheme = url.partition("://")[0]
    raise ConfigError(
        f"{scheme}://...: has no host that can be read; expected {scheme}://host/path, with "
        "special characters of a user or password as %23 for #"
    )


def show(url: str) -> str:
    """Returns a URL for messages, without user, password, query and fragment."""
    parts = split_url(url)
    if parts.scheme == "hf":  # an @ begins the revision
        return url.partition("?")[0]
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def name_of_url(url: str) -> str:
    """Returns the name of a model by its URL: ``digits`` for ``s3://models/digits.onnx``."""
    parts = split_url(url)
    path = parts.path.partition("@")[0].partition(":")[0]
    return PurePosixPath(unquote(path or parts.netloc)).stem or parts.netloc


def strip_user(url: str) -> str:
    """Returns a URL without user and password, which do not change the files."""
    parts = split_url(url)
    if parts.scheme == "hf":
        return url
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def open_source(url: str) -> RemoteSource:
    """Returns the source of a URL. Reads nothing yet.

    Raises:
        ConfigError: The URL has another form or scheme.
        MissingDependencyError: A package for the scheme is not installed.
    """
    scheme = url.partition("://")[0].lower()
    if scheme not in _SOURCES:
        near, schemes = did_you_mean(scheme, _SOURCES), ", ".join(f"{one}://" for one in _SOURCES)
        raise ConfigError(f"{show(url)}: no source has the scheme {scheme}{near} ({schemes})")
    module, name = _SOURCES[scheme]
    kind: Any = getattr(import_module(f"modelflow.serve.sources.{module}"), name)
    source: RemoteSource = kind(url, show(url))
    return source
