"""Reading a graph file of any accepted format into a `FlowConfig`."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from modelflow.config.document import Document, read_json, read_toml, read_yaml
from modelflow.config.flow_config import FlowConfig
from modelflow.config.read_document import config_of
from modelflow.config.read_dot import read_dot
from modelflow.errors import ConfigError, Finding, Location, did_you_mean

__all__ = ["read_config"]

_MAX_BYTES = 16 << 20
_BY_SUFFIX = {
    ".toml": "toml",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".json": "json",
    ".dot": "dot",
    ".gv": "dot",
}


def read_config(
    source: str | os.PathLike[str] | Mapping[str, Any],
    format: str | None = None,  # noqa: A002
) -> FlowConfig:
    """Reads a graph.

    Args:
        source: A path, the text of a graph file, or a mapping in the native form.
        format: ``toml``, ``yaml``, ``json`` or ``dot``; None: by the suffix of the path, or by what
            the text begins with.

    Raises:
        ConfigError: it cannot be read; every mistake is listed with its line.
    """
    if format is not None and format not in _BY_SUFFIX.values():
        known = sorted(set(_BY_SUFFIX.values()))
        message = f"format: got {format!r}; expected one of {known}{did_you_mean(format, known)}"
        raise ConfigError(message)
    if isinstance(source, Mapping):
        return config_of(Document(dict(source), {}, "<mapping>"), None)
    if isinstance(source, os.PathLike) or _is_path(source):
        path = Path(source)
        return _parsed(_content(path), format or _by_suffix(path), str(path), path)
    return _parsed(source, format or _by_content(source), "<text>", None)


def _is_path(source: str) -> bool:
    return "\n" not in source and "{" not in source and "=" not in source


def _by_suffix(path: Path) -> str:
    known = _BY_SUFFIX.get(path.suffix.lower())
    if known is None:
        expected = " ".join(_BY_SUFFIX)
        message = f"{path}: got the suffix {path.suffix!r}; expected one of {expected}"
        raise ConfigError(message)
    return known


def _by_content(text: str) -> str:
    words = [line for line in text.splitlines() if line.strip()]
    first = words[0].lstrip() if words else ""
    if first.startswith("{"):
        return "json"
    code = " ".join(line for line in words if not line.lstrip().startswith(("#", "//", "/*", "*")))
    if code.lstrip().lower().startswith(("digraph", "strict", "graph ", "graph{")):
        return "dot"
    is_toml = first.startswith(("[", "#")) or any("=" in line.split(":")[0] for line in words[:1])
    return "toml" if is_toml or not words else "yaml"


def _content(path: Path) -> str:
    if path.is_dir():
        message = f"{path}: is a folder; expected a graph file"
        raise ConfigError(message)
    try:
        size = path.stat().st_size
        if size > _MAX_BYTES:
            message = f"{path}: has {size} bytes; expected at most {_MAX_BYTES}"
            raise ConfigError(message)
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        folder = path.parent
        near = did_you_mean(path.name, os.listdir(folder) if folder.is_dir() else ())
        message = f"{path}: there is no such file{near}"
        raise ConfigError(message) from error
    except (OSError, UnicodeDecodeError) as error:
        message = f"{path}: cannot be read: {error}"
        raise ConfigError(message) from error


def _parsed(text: str, format: str, file: str, path: Path | None) -> FlowConfig:  # noqa: A002
    if len(text) > _MAX_BYTES:
        at = Location(file)
        message = f"the text has {len(text)} characters; expected at most {_MAX_BYTES}"
        raise ConfigError([Finding(at, message, error=ConfigError)])
    if format == "dot":
        return config_of(Document({}, {}, file), path, read_dot(text, file))
    reader = {"toml": read_toml, "yaml": read_yaml, "json": read_json}[format]
    return config_of(reader(text, file), path)
