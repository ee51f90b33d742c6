"""Finds graph files by name, and reads them from any format into a `FlowConfig`."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from modelflow.archive.suffix import is_archive_file
from modelflow.config.document import (
    FORM_BY_SUFFIX,
    MOST_BYTES,
    Document,
    mistake,
    read_text,
    read_toml,
)
from modelflow.config.dot.read import read_dot
from modelflow.config.flow_config import FlowConfig
from modelflow.config.make_flow_config import config_of
from modelflow.config.override import bake
from modelflow.errors import ConfigError, did_you_mean
from modelflow.starters.ready import ready_graphs


def find_graph(name: str, folder: str | os.PathLike[str] | None = None) -> Path:
    """Returns the graph file whose ``[flow] name`` is ``name``.

    Args:
        name: The name.
        folder: The folder to search. None: the graphs that come with modelflow.

    Raises:
        ConfigError: No graph has the name; the message lists the existing names.
    """
    where = ready_graphs() if folder is None else Path(folder)
    if not where.is_dir():
        raise ConfigError(f"{where}: there is no such folder to find the graph {name!r} in")
    named = list_named_graphs(where)
    if name not in named:
        there = ", ".join(named) or "none"
        raise ConfigError(
            f"{where}: no graph is named {name!r}{did_you_mean(name, named)}; found: {there}"
        )
    return named[name]


def list_named_graphs(folder: Path) -> dict[str, Path]:
    """Returns the graph files of a folder by ``[flow] name``, or by file name without a suffix.

    Raises:
        ConfigError: A file cannot be read.
    """
    named: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        if FORM_BY_SUFFIX.get(path.suffix, "dot") != "dot":  # a DOT file has no [flow] name
            named.setdefault(read_config(path).flow.get("name") or path.stem, path)
    return named


def is_graph_file(path: Path) -> bool:
    """Tells whether a path has the suffix of a graph file or of an archive."""
    return path.suffix.lower() in FORM_BY_SUFFIX or is_archive_file(path)


def read_config(
    source: str | os.PathLike[str] | Mapping[str, Any],
    format: str | None = None,  # noqa: A002
) -> FlowConfig:
    """Reads a graph.

    Args:
        source: The path of a graph file or an archive, the text of a graph file, or a mapping in
            the native form. An archive is verified, and unpacked on first use. A text of one line
            without ``{`` and ``=`` is a path. With ``format`` it is a path only if the file exists
            or has the suffix of a graph file.
        format: ``toml``, ``yaml``, ``json`` or ``dot``. None: by the suffix of the path, or by the
            beginning of the text.

    Raises:
        ConfigError: The source has another type, cannot be read, or has mistakes. The error lists
            every mistake with its line.
    """
    if format is not None and format not in FORM_BY_SUFFIX.values():
        known = sorted(set(FORM_BY_SUFFIX.values()))
        raise ConfigError(
            f"format: got {format!r}; expected one of {known}{did_you_mean(format, known)}"
        )
    if isinstance(source, Mapping):
        return config_of(Document(dict(source), {}, "<mapping>"), None)
    given: object = source  # a caller may pass any type
    if not isinstance(given, str | os.PathLike):
        raise ConfigError(
            f"got {type(given).__name__} for a graph; expected a path, the text of a graph file, "
            "a mapping or a FlowGraphDesc"
        )
    if isinstance(source, os.PathLike) or _is_path(source, format):
        path = Path(source)
        if is_archive_file(path):
            return _read_archive(path)
        return _parse(read_text(path), format or form_of(path), str(path), path)
    return _parse(source, format or _by_content(source), "<text>", None)


def read_text_config(text: str, form: str, path: Path) -> FlowConfig:
    """Parses a text as the content of a file, which need not exist.

    Args:
        text: The text of a graph file.
        form: ``toml``, ``yaml``, ``json`` or ``dot``.
        path: The path of the file, for relative paths and messages.

    Raises:
        ConfigError: The text has mistakes; the error lists each with its line.
    """
    return _parse(text, form, str(path), path)


def _is_path(source: str, format: str | None) -> bool:  # noqa: A002
    """Tells whether a text is a path and not a graph; with a format only for a likely path."""
    if any(mark in source for mark in "\n{=\0"):
        return False
    return format is None or is_graph_file(Path(source)) or os.path.exists(source)


def _read_archive(path: Path) -> FlowConfig:
    """Reads the graph of an archive, with the settings that were packed."""
    from modelflow.archive.unpack import unpack  # here, because few programs use archives

    folder, manifest = unpack(path)
    inside, shown = folder / manifest.graph, path / manifest.graph
    config = _parse(read_text(inside), form_of(inside), str(shown), inside)
    config = bake(
        config, manifest.overrides, manifest.args, (f"{path}: overrides", f"{path}: args")
    )
    modules = tuple(folder / name for name in manifest.modules)
    return replace(config, archive=path, modules=modules)


def form_of(path: Path) -> str:
    """Returns the form of a graph file by its suffix.

    Raises:
        ConfigError: The suffix is not that of a graph file, or the file is an archive.
    """
    if is_archive_file(path):
        raise ConfigError(
            f"{path}: is an archive, which cannot be changed; give the "
            "graph file that it was packed from, and pack that again"
        )
    known = FORM_BY_SUFFIX.get(path.suffix.lower())
    if known is None:
        expected = " ".join(FORM_BY_SUFFIX)
        raise ConfigError(f"{path}: got the suffix {path.suffix!r}; expected one of {expected}")
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


def _parse(text: str, format: str, file: str, path: Path | None) -> FlowConfig:  # noqa: A002
    if len(text) > MOST_BYTES:
        raise mistake(
            file, None, f"the text has {len(text)} characters; expected at most {MOST_BYTES}"
        )
    if format == "dot":
        return config_of(Document({}, {}, file), path, read_dot(text, file))
    if format == "toml":
        return config_of(read_toml(text, file), path)
    from modelflow.config.yaml_document import read_json, read_yaml  # loads PyYAML

    return config_of((read_yaml if format == "yaml" else read_json)(text, file), path)
