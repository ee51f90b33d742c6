"""The models of ``modelflow serve``, from the arguments of the command line."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from modelflow.cli.options.graph_choice import read_assignments
from modelflow.config.override import Environment
from modelflow.errors import ConfigError

if TYPE_CHECKING:
    from modelflow.serve.repository.config import ServeConfig
    from modelflow.serve.repository.source import VersionPolicy
    from modelflow.serve.sources.cache import SourceCache
    from modelflow.serve.traffic.split import Split


def build_config(given: Mapping[str, Any], environment: Environment | None = None) -> "ServeConfig":
    """Returns the configuration of the models to serve.

    Args:
        given: The values of all options, by parameter.
        environment: Settings of lower priority than ``--set`` and ``--arg``. None: the settings in
            this process's environment.

    Raises:
        click.UsageError: A value has another form, or two models have the same name.
        ConfigError: The ``batching_config.txt`` cannot be read or is wrong, or a variable of the
            environment fits no model.
    """
    from modelflow.serve.batching_parameters import read_batching_parameters
    from modelflow.serve.repository.config import ServeConfig, choose_name
    from modelflow.serve.repository.source import ModelSettings, find_origin, is_repository

    sources = _cache(given)
    named: dict[str, str | Path] = {}
    repositories: list[str | Path] = []
    for source in given["sources"]:
        name, path = _split_name(source)
        if not name and is_repository(find_origin(path, sources)[0], given["engine"]):
            repositories.append(path)
            continue
        name = name or choose_name(path, sources)
        if name in named:
            raise click.UsageError(
                f"two models have the name {name!r}, {named[name]} and {path}; give one another "
                "name: NAME=PATH"
            )
        named[name] = path
    batching_file = given["batching_file"]
    settings = ModelSettings(
        _policy(given["versions"]),
        {},
        read_assignments("--set", given["overrides"]),
        read_assignments("--arg", given["args"]),
        {} if batching_file is None else read_batching_parameters(batching_file),
        Environment.of(os.environ) if environment is None else environment,
        given["engine"],
    )
    labels = _labels(given["labels"])
    config = ServeConfig(
        named, repositories, given["config_file"], settings, labels, sources=sources
    )
    config.check_environment()
    return config


def add_names(sources: Sequence[str], given: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the sources with their names, ``NAME=PATH``, for all processes of a server.

    A graph may be edited while a process restarts. The process must then keep the old name.

    Args:
        sources: The sources.
        given: The values of all options, by parameter.

    Raises:
        ConfigError: A URL has another form, or the cache cannot be written.
    """
    from modelflow.serve.repository.config import choose_name
    from modelflow.serve.repository.source import find_origin, is_repository

    cache = _cache(given)

    def add(source: str) -> str:
        name, origin = _split_name(source)
        if name or is_repository(find_origin(origin, cache)[0], given["engine"]):
            return source
        return f"{choose_name(origin, cache)}={source}"

    return tuple(map(add, sources))


def _cache(given: Mapping[str, Any]) -> "SourceCache":
    """Returns the cache of this command, which remembers its listings."""
    from modelflow.serve.sources.cache import SourceCache

    most = None if given["cache_size"] is None else int(given["cache_size"])
    context = click.get_current_context(silent=True)
    known: dict[str, Any] = {} if context is None else context.meta
    cache: SourceCache = known.setdefault("sources", SourceCache(given["cache_dir"], most))
    return cache


def _split_name(source: str) -> tuple[str, str | Path]:
    """Parses ``NAME=PATH``, or ``PATH``. A path may also be a URL."""
    name, mark, path = source.partition("=")
    if not mark or "://" in name:  # a URL may hold the sign
        return "", _path_of(source)
    if not name or not path or "/" in name:
        raise click.UsageError(
            f"got {source!r}; expected NAME=PATH, as in digits=graphs/digits.toml"
        )
    return name, _path_of(path)


def _path_of(text: str) -> str | Path:
    """Returns the given path or URL, or the file of the ready graph with that name."""
    from modelflow.serve.sources.url import is_url

    if is_url(text):
        return text
    path = Path(text)
    if path.suffix or path.exists():
        return path
    from modelflow.config.read import list_named_graphs
    from modelflow.starters.ready import ready_graphs

    return list_named_graphs(ready_graphs()).get(text, path)


def _policy(text: str) -> "VersionPolicy":
    from modelflow.serve.repository.source import read_policy

    try:
        return read_policy(text)
    except ConfigError as error:
        raise click.UsageError(f"--{error}") from error


def _labels(texts: Iterable[str]) -> "dict[str, dict[str, Split]]":
    from modelflow.serve.traffic.split import read_split

    targets: dict[tuple[str, str], list[str]] = {}
    for text in texts:
        place, mark, target = text.partition("=")
        name, colon, label = place.rpartition(":")
        if not (mark and colon and name and label and target):
            raise click.UsageError(
                f"--label: got {text!r}; expected NAME:LABEL=VERSION, as in digits:stable=2"
            )
        targets.setdefault((name, label), []).append(target)
    found: dict[str, dict[str, Split]] = {}
    for (name, label), given in targets.items():
        try:
            split = read_split(f"--label {name}:{label}", given)
        except ConfigError as error:
            raise click.UsageError(str(error)) from error
        if label.isdecimal():
            raise click.UsageError(f"--label {name}:{label}: got a number; expected a word")
        found.setdefault(name, {})[label] = split
    return found
