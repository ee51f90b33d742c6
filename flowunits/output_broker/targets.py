"""The targets to which ``output_broker`` sends results."""

import json
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any, Protocol
from urllib.parse import urlsplit

from flowunits.output_broker.webhook import post
from modelflow.errors import did_you_mean
from modelflow.files.path_template import PathTemplate
from modelflow.files.whole_file import write_whole

__all__ = ["Target", "read_targets"]

GROUP = "modelflow.brokers"
_TIMEOUT_MS = 10_000


class Target(Protocol):
    """A target for results.

    A plug-in is such a class, named in the entry points ``modelflow.brokers``. The class
    is called with the object ``cfg``. An exception from `send` is a failed attempt.
    """

    def __init__(self, cfg: Mapping[str, Any]) -> None:
        """Reads the settings; raises `ValueError` for unsuitable settings."""

    def send(self, data: bytes, content_type: str, meta: Mapping[str, Any]) -> None:
        """Sends one result; raises an exception if this fails."""


class Webhook:
    """Sends results to a URL by POST; any status from 200 to 299 is a success."""

    def __init__(self, cfg: Mapping[str, Any]) -> None:
        """Reads ``url``, and optionally ``headers`` and ``timeout_ms``."""
        _check_keys("webhook", cfg, ("url",), ("headers", "timeout_ms"))
        self._url, self._headers = str(cfg["url"]), dict(cfg.get("headers", {}))
        self._timeout = float(cfg.get("timeout_ms", _TIMEOUT_MS)) / 1e3
        if urlsplit(self._url).scheme not in ("http", "https"):
            raise ValueError(
                "webhook: got a url of another scheme; expected http://... or https://..."
            )

    def send(self, data: bytes, content_type: str, meta: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Sends the result by POST."""
        headers = {"Content-Type": content_type, **self._headers}
        post(self._url, data, headers, self._timeout)


class File:
    """Writes each result to a file, whole or not at all."""

    def __init__(self, cfg: Mapping[str, Any]) -> None:
        """Reads ``path``, a template."""
        _check_keys("file", cfg, ("path",), ())
        self._template = PathTemplate(str(cfg["path"]))

    def send(self, data: bytes, content_type: str, meta: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Writes the result."""
        write_whole(self._template.fill(meta), data)


_BUILT_IN: Mapping[str, type[Target]] = {"webhook": Webhook, "file": File}


def read_targets(given: Any) -> dict[str, Target]:
    """Returns targets by their names.

    Args:
        given: A list of objects with type, name and cfg, or JSON text of such a list.

    Raises:
        ValueError: ``given`` has another form, or the settings of a target are wrong.
    """
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except json.JSONDecodeError as error:
            raise ValueError(f"brokers: got text that is no JSON: {error}") from error
    if not isinstance(given, list) or not given:
        raise ValueError(
            f"brokers: got {given!r}; expected a list of objects with type, name and cfg"
        )
    found: dict[str, Target] = {}
    for place, described in enumerate(given):
        where = f"brokers[{place}]"
        if not isinstance(described, Mapping):
            raise ValueError(
                f"{where}: got {described!r}; expected an object with type, name and cfg"
            )
        name = str(described.get("name", described.get("type")))
        if name in found:
            raise ValueError(f"{where}: there is another one called {name!r}")
        try:
            found[name] = _target(described.get("type"))(described.get("cfg", {}))
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{where}: {error}") from error
    return found


def _target(kind: Any) -> type[Target]:
    if kind in _BUILT_IN:
        return _BUILT_IN[kind]
    points = {point.name: point for point in entry_points(group=GROUP)}
    if kind not in points:
        known = [*_BUILT_IN, *points]
        near = did_you_mean(str(kind), known)
        raise ValueError(f"got the type {kind!r}{near}; expected one of {', '.join(known)}")
    loaded: type[Target] = points[kind].load()
    return loaded


def _check_keys(
    kind: str, cfg: Mapping[str, Any], required: tuple[str, ...], optional: tuple[str, ...]
) -> None:
    wrong = [key for key in cfg if key not in (*required, *optional)]
    missing = [key for key in required if key not in cfg]
    if wrong or missing:
        expected = ", ".join((*required, *(f"perhaps {key}" for key in optional)))
        raise ValueError(f"{kind}: got the keys {sorted(cfg)}; expected {expected}")
