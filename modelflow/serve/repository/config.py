"""Everything that a server was asked to serve, read anew whenever it looks for new versions."""

import contextlib
import logging
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from modelflow.archive.archive import is_archive_file
from modelflow.config.override import ARG, SET, flatten
from modelflow.config.read import is_graph_file, read_config
from modelflow.errors import ConfigError, did_you_mean
from modelflow.flow import Flow
from modelflow.serve.repository.source import (
    LATEST,
    ModelConfig,
    ModelSettings,
    VersionPolicy,
    is_source,
)
from modelflow.wire.problem import Problem, refuse, sendable, shorten
from modelflow.wire.proto import TF_SERVING

logger = logging.getLogger(__name__)

# A name that stands in an address as it is, and in a line of a log.
_NAME = re.compile(r"\w[\w.@ -]*")


class Placing(NamedTuple):
    """Which models run partly elsewhere, where something runs that.

    Attributes:
        models: Those whose graphs place nodes.
        declared: The placements that the graphs declare.
        unread: Models whose graphs cannot be read.
    """

    models: Sequence[str]
    declared: Sequence[str]
    unread: Sequence[str]


@dataclass(frozen=True, slots=True)
class ServeConfig:
    """What to serve.

    Attributes:
        named: By the model's name a graph file, a model, a folder with versions (``1/ 2/ ...``,
            each a model or a graph), or a `Flow` that does not run yet.
        repositories: Folders of them, each under the name of its file or folder.
        config_file: A ``models.config`` of TensorFlow Serving.
        settings: For all; but which versions those of the file have, it says itself.
        labels: By the model's name, labels: ``{"digits": {"stable": 2}}``; beside the file's.
        configured: What a client has put in the place of the file; None: the file counts.
        only: The names of models that are served; None: all.
        without: Those that are not, as another process has them.
    """

    named: Mapping[str, str | Path | Flow] = field(default_factory=lambda: MappingProxyType({}))
    repositories: Sequence[Path] = ()
    config_file: Path | None = None
    settings: ModelSettings = field(default_factory=ModelSettings)
    labels: Mapping[str, Mapping[str, int]] = field(default_factory=lambda: MappingProxyType({}))
    configured: Sequence[ModelConfig] | None = None
    only: Collection[str] | None = None
    without: Collection[str] = ()

    def check(self) -> None:
        """Looks whether there is what was asked for by name, before anything is served.

        Raises:
            ConfigError: there is not; a label is of no model; nothing was asked for; or as `read`.
        """
        if not (self.named or self.repositories or self.config_file):
            raise ConfigError("there is nothing to serve; give a graph: modelflow serve graph.toml")
        for name, origin in self.named.items():
            self._source(name, origin).check()
        for folder in self.repositories:
            for path in _inside(folder):
                if path.is_dir() and not is_source(path):
                    logger.warning("%s: holds nothing to serve, and is passed over", path)
                elif not _is_text(name_of(path)):
                    logger.warning("%r: no name that is UTF-8, and is passed over", str(path))
        known = replace(self, only=None, without=()).read()
        for name in self.labels:
            if name not in known:
                near, names = did_you_mean(name, known), ", ".join(known) or "none"
                raise ConfigError(
                    f"label of {name!r}: there is no such model{near} (models: {names})"
                )

    def check_environment(self) -> None:
        """Looks whether each setting of the environment fits one of the models.

        Raises:
            ConfigError: one fits none; or as `read`.
        """
        environment = self.settings.environment
        if not (environment.overrides or environment.args):
            return
        sources = self.read()
        nodes: set[str] = set()
        args: set[str] = set()
        for source in sources.values():
            try:
                found = source.names()
            except ConfigError:  # told when it is loaded; a setting may be meant for it
                return
            nodes, args = nodes | found[0], args | found[1]
        unknown = [
            (SET, "node", node, nodes)
            for node, _, _ in flatten(environment.overrides, nodes, SET)
            if node not in (*nodes, "*")
        ]
        unknown += [(ARG, "argument", name, args) for name in environment.args if name not in args]
        for variable, kind, name, known in unknown if sources else ():
            raise ConfigError(
                f"{variable}: no model that is served has a {kind} {name!r}"
                f"{did_you_mean(name, known)} ({kind}s: {', '.join(sorted(known)) or 'none'})"
            )

    def placing(self) -> Placing:
        """Finds out which models place nodes, as they are on the disk now.

        Raises:
            ConfigError: as `read`.
        """
        models, declared, unread = [], set(), []
        for name, source in self.read().items():
            try:
                nodes, placements = source.list_placed()
            except ConfigError:  # told when it is loaded
                unread.append(name)
                continue
            declared |= set(placements)
            models += [name] if nodes else []
        return Placing(models, sorted(declared), unread)

    def read(self) -> dict[str, ModelConfig]:
        """Returns every model that is there now, by its name.

        Raises:
            ConfigError: a repository is not there, two models have one name, or the file is wrong.
        """
        found: dict[str, ModelConfig] = {}
        for source in self._all():
            is_here = self.only is None or source.name in self.only
            if not is_here or source.name in self.without:
                continue
            if source.name in found:
                raise ConfigError(
                    f"two models have the name {source.name!r}: {found[source.name].origin} and "
                    f"{source.origin}; give one of them another: NAME=PATH"
                )
            found[source.name] = source
        return found

    def _all(self) -> Iterator[ModelConfig]:
        for name, origin in self.named.items():
            yield self._source(name, origin)
        for folder in self.repositories:
            yield from self._repository(folder)
        for source in self._configure():
            labels = {**source.settings.labels, **self.labels.get(source.name, {})}
            settings = replace(self.settings, policy=source.settings.policy, labels=labels)
            yield replace(source, settings=settings)

    def _configure(self) -> Sequence[ModelConfig]:
        if self.configured is not None:
            return self.configured
        return () if self.config_file is None else read_model_config(self.config_file)

    def _repository(self, folder: Path) -> Iterator[ModelConfig]:
        for path in _inside(folder):
            if is_source(path) and _is_text(name_of(path)):
                yield self._source(name_of(path), path)

    def _source(self, name: str, origin: str | Path | Flow) -> ModelConfig:
        if not _is_text(name):
            raise ConfigError(f"model {name!r}: its name is no UTF-8; give it another: NAME=PATH")
        settings = replace(self.settings, labels=self.labels.get(name, {}))
        if isinstance(origin, Flow):
            return ModelConfig(name, origin, settings)
        return ModelConfig(name, Path(origin), settings)


def _inside(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise ConfigError(f"{folder}: there is no such folder; expected one of models")
    return [path for path in sorted(folder.iterdir()) if not path.name.startswith(".")]


def _is_text(name: str) -> bool:
    return sendable(name) == name  # else no client could ask for it, or be told of it


def name_of(path: Path) -> str:
    """Returns the name of a model that has none: ``digits`` of ``graphs/digits.toml``."""
    path = path.resolve()
    return path.name if path.is_dir() or not path.suffix else path.stem


def choose_name(path: Path) -> str:
    """Returns the name under which a graph or a model that is given alone is served.

    That of the graph, ``[flow] name``, where it has one that an address can hold; else, and of an
    archive, `name_of`.
    """
    if is_graph_file(path) and not is_archive_file(path) and path.is_file():
        with contextlib.suppress(ConfigError):  # whoever loads it says what is wrong
            config = read_config(path)
            if config.is_named and _NAME.fullmatch(str(config.flow["name"])):
                return str(config.flow["name"])
    return name_of(path)


def as_serve_config(sources: object) -> ServeConfig:
    """Returns what a program wants served: names with their sources, or a `ServeConfig`.

    Raises:
        ConfigError: it is neither.
    """
    if isinstance(sources, ServeConfig):
        return sources
    if isinstance(sources, Mapping):
        return ServeConfig(sources)
    raise ConfigError(
        f"Server: got {sources!r}; expected names with their sources: {{'name': 'graph.toml'}}"
    )


def read_model_config(path: Path) -> list[ModelConfig]:
    """Returns the models that a ``models.config`` names, with their versions and labels.

    Args:
        path: The file, a ``ModelServerConfig`` in protobuf's text form. A ``base_path`` that is not
            absolute counts from its folder.

    Raises:
        ConfigError: it cannot be read, or is wrong.
    """
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read ({error}); expected a models.config") from error
    try:
        config = TF_SERVING.parse_text("tensorflow.serving.ModelServerConfig", text, str(path))
    except Problem as problem:
        raise ConfigError(str(problem)) from problem
    return [*_models_of(config, str(path), path.parent)]


def _models_of(config: Any, where: str, folder: Path) -> Iterator[ModelConfig]:
    if config.WhichOneof("config") == "custom_model_config":
        raise ConfigError(f"{where}: custom_model_config; expected model_config_list")
    for place, model in enumerate(config.model_config_list.config):
        for key in ("name", "base_path"):
            if not getattr(model, key):
                raise ConfigError(
                    f"{where}: config {place} ({model.name or model.base_path}) has no {key}"
                )
        path = folder / model.base_path.removeprefix("file://")
        settings = ModelSettings(_policy(model), dict(model.version_labels))
        yield ModelConfig(model.name, path, settings)


def _policy(model: Any) -> VersionPolicy:
    policy = model.model_version_policy
    match policy.WhichOneof("policy_choice"):
        case "all":
            return VersionPolicy(latest=0)
        case "specific":
            return VersionPolicy(specific=tuple(policy.specific.versions))
        case "latest":
            return VersionPolicy(latest=policy.latest.num_versions or 1)
        case _:
            return LATEST


def read_reload_request(config: bytes) -> list[ModelConfig]:
    """Returns what is to be served, of a serialized ``ReloadConfigRequest``.

    Raises:
        Problem: it says nothing, or what is not right.
    """
    message = TF_SERVING["tensorflow.serving.ReloadConfigRequest"].FromString(config).config
    if message.WhichOneof("config") is None:
        refuse("ReloadConfigRequest: no config; expected model_config_list")
    for model in message.model_config_list.config:
        if not Path(model.base_path.removeprefix("file://")).is_absolute():
            path = shorten(model.base_path)
            refuse(f"model {shorten(model.name)}: base_path {path}; expected an absolute path")
    try:
        return list(_models_of(message, "ReloadConfigRequest", Path("/")))
    except ConfigError as error:
        raise Problem(str(error)) from error
