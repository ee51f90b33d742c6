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
    from modelflow.serve.repository.source import ModelSettings, is_repository

    named: dict[str, Path] = {}
    repositories: list[Path] = []
    for source in given["sources"]:
        name, path = _split_name(source)
        if not name and is_repository(path, given["engine"]):
            repositories.append(path)
            continue
        name = name or choose_name(path)
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
    config = ServeConfig(named, repositories, given["config_file"], settings, labels)
    config.check_environment()
    return config


def add_names(sources: Sequence[str], engine: str) -> tuple[str, ...]:
    """Returns the sources with their names, ``NAME=PATH``, for all processes of a server.

    A graph may be edited while a process restarts. The process must then keep the old name.
    ``engine`` is the value of ``--engine``.
    """
    from modelflow.serve.repository.config import choose_name
    from modelflow.serve.repository.source import is_repository

    return tuple(
        source
        if "=" in source or is_repository(Path(source), engine)
        else f"{choose_name(_path_of(source))}={source}"
        for source in sources
    )


def _split_name(source: str) -> tuple[str, Path]:
    """Parses ``NAME=PATH``, or ``PATH``."""
    name, mark, path = source.partition("=")
    if not mark:
        return "", _path_of(source)
    if not name or not path or "/" in name:
        raise click.UsageError(
            f"got {source!r}; expected NAME=PATH, as in digits=graphs/digits.toml"
        )
    return name, _path_of(path)


def _path_of(text: str) -> Path:
    """Returns the given path, or the file of the ready graph with that name."""
    path = Path(text)
    if path.suffix or path.exists():
        return path
    from modelflow.config.read import list_named_graphs, ready_graphs

    return list_named_graphs(ready_graphs()).get(text, path)


def _policy(text: str) -> "VersionPolicy":
    from modelflow.serve.repository.source import read_policy

    try:
        return read_policy(text)
    except ConfigError as error:
        raise click.UsageError(f"--{error}") from error


def _labels(texts: Iterable[str]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for text in texts:
        place, mark, number = text.partition("=")
        name, colon, label = place.rpartition(":")
        if not (mark and colon and name and label and number.isdecimal()):
            raise click.UsageError(
                f"--label: got {text!r}; expected NAME:LABEL=VERSION, as in digits:stable=2"
            )
        found.setdefault(name, {})[label] = int(number)
    return found
