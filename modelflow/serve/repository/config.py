"""The configuration of the models to serve, read again at each scan for new versions."""

import contextlib
import logging
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from modelflow.archive.suffix import is_archive_file
from modelflow.config.override import ARG, SET, flatten
from modelflow.config.read import is_graph_file, read_config
from modelflow.engine.python.unread import describe_unread
from modelflow.errors import ConfigError, did_you_mean
from modelflow.flow import Flow
from modelflow.serve.repository.source import (
    LATEST,
    ModelConfig,
    ModelSettings,
    VersionPolicy,
    find_origin,
    is_source,
)
from modelflow.serve.sources.cache import SourceCache
from modelflow.serve.sources.url import is_url, name_of_url
from modelflow.serve.traffic.split import Split
from modelflow.wire.problem import Problem, refuse, sendable, shorten
from modelflow.wire.proto import TF_SERVING

logger = logging.getLogger(__name__)

# A name that needs no escapes in a URL or a log line.
_NAME = re.compile(r"\w[\w.@ -]*")


class Placing(NamedTuple):
    """The models with placed nodes, which run in other processes or on other machines.

    Attributes:
        models: The models whose graphs place nodes.
        declared: The placements that the graphs declare.
        unread: The models whose graphs cannot be read.
    """

    models: Sequence[str]
    declared: Sequence[str]
    unread: Sequence[str]


@dataclass(frozen=True, slots=True)
class ServeConfig:
    """The models to serve.

    Attributes:
        named: A source for each model name: a graph file, a model, a folder with versions
            (``1/ 2/ ...``), or a `Flow` that does not run yet. A URL names one of the first three.
        repositories: Folders of graphs and models, or URLs of such folders. Each model has the name
            of its file or folder.
        config_file: A ``models.config`` of TensorFlow Serving.
        settings: The settings of all models. Models of the ``config_file`` keep the file's version
            policy.
        labels: Labels by model name, ``{"digits": {"stable": 2}}``, in addition to the file's. A
            `Split` has several versions.
        configured: The models that a client has set in place of the file. None if the file counts.
        only: The names of the models to serve. None for all models.
        without: The names of models that another process serves.
        sources: The cache of the models at URLs.
    """

    named: Mapping[str, str | Path | Flow] = field(default_factory=lambda: MappingProxyType({}))
    repositories: Sequence[str | Path] = ()
    config_file: Path | None = None
    settings: ModelSettings = field(default_factory=ModelSettings)
    labels: Mapping[str, Mapping[str, int | Split]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    configured: Sequence[ModelConfig] | None = None
    only: Collection[str] | None = None
    without: Collection[str] = ()
    sources: SourceCache = field(default_factory=SourceCache)

    def check(self) -> None:
        """Checks that every named source exists, before any model is served.

        Raises:
            ConfigError: a source is missing, a label names no model, or no source is given. Also as
                `read`.
        """
        if not (self.named or self.repositories or self.config_file):
            raise ConfigError("there is nothing to serve; give a graph: modelflow serve graph.toml")
        for name, origin in self.named.items():
            source = self._source(name, origin)
            if source.remote is None:  # the files at a URL may appear later
                source.check()
        self._check_repositories()
        known = replace(self, only=None, without=()).read()
        for name in self.labels:
            if name not in known:
                near, names = did_you_mean(name, known), ", ".join(known) or "none"
                raise ConfigError(
                    f"label of {name!r}: there is no such model{near} (models: {names})"
                )

    def _check_repositories(self) -> None:
        for place in self.repositories:
            folder, _ = find_origin(place, self.sources)
            if advice := describe_unread(folder):
                raise ConfigError(f"{folder}: no engine reads it{advice}")
            for path in _inside(folder):
                if path.is_dir() and not is_source(path):
                    logger.warning("%s: holds nothing to serve, and is passed over", path)
                elif not _is_text(name_of(path)):
                    logger.warning("%r: no name that is UTF-8, and is passed over", str(path))

    def check_environment(self) -> None:
        """Checks that each setting of the environment fits at least one model.

        Raises:
            ConfigError: a setting fits no model. Also as `read`.
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
            except ConfigError:  # reported at its load; a setting may be meant for this model
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
        """Returns the models on the disk that place nodes.

        Raises:
            ConfigError: as `read`.
        """
        models, declared, unread = [], set(), []
        for name, source in self.read().items():
            try:
                nodes, placements = source.list_placed()
            except ConfigError:  # reported at its load
                unread.append(name)
                continue
            declared |= set(placements)
            models += [name] if nodes else []
        return Placing(models, sorted(declared), unread)

    def read(self) -> dict[str, ModelConfig]:
        """Returns every model that exists now, by name.

        Raises:
            ConfigError: a repository does not exist, two models have the same name, or the file is
                invalid.
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
        return () if self.config_file is None else read_model_config(self.config_file, self.sources)

    def _repository(self, place: str | Path) -> Iterator[ModelConfig]:
        folder, remote = find_origin(place, self.sources)
        for path in _inside(folder):
            if is_source(path) and _is_text(name_of(path)):
                yield replace(self._source(name_of(path), path), remote=remote)

    def _source(self, name: str, origin: str | Path | Flow) -> ModelConfig:
        if not _is_text(name):
            raise ConfigError(f"model {name!r}: its name is no UTF-8; give it another: NAME=PATH")
        settings = replace(self.settings, labels=self.labels.get(name, {}))
        if isinstance(origin, Flow):
            return ModelConfig(name, origin, settings)
        path, remote = find_origin(origin, self.sources)
        return ModelConfig(name, path, settings, remote)


def _inside(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise ConfigError(f"{folder}: there is no such folder; expected one of models")
    return [path for path in sorted(folder.iterdir()) if not path.name.startswith(".")]


def _is_text(name: str) -> bool:
    return sendable(name) == name  # clients can send and receive only UTF-8


def name_of(path: Path) -> str:
    """Returns the name of a model by its path: ``digits`` for ``graphs/digits.toml``."""
    path = path.resolve()
    return path.name if path.is_dir() or not path.suffix else path.stem


def choose_name(origin: str | Path, sources: SourceCache | None = None) -> str:
    """Returns the name of a graph or a model that is given without a name.

    This is the graph's ``[flow] name`` if a URL can hold that name. Otherwise, and for an archive,
    it is `name_of` the path.

    Args:
        origin: The path or the URL of the graph or model.
        sources: The cache of the models at URLs. Needed for a URL.
    """
    path, remote = find_origin(origin, sources)
    if remote is not None and remote.listing is None:  # the listing has failed
        return name_of_url(str(origin))
    if is_graph_file(path) and not is_archive_file(path) and path.is_file():
        with contextlib.suppress(ConfigError):  # the load reports the error
            config = read_config(path)
            if config.is_named and _NAME.fullmatch(str(config.flow["name"])):
                return str(config.flow["name"])
    return name_of(path)


def as_serve_config(sources: object) -> ServeConfig:
    """Returns the `ServeConfig` for names with sources, or an existing `ServeConfig` unchanged.

    Raises:
        ConfigError: the argument is neither.
    """
    if isinstance(sources, ServeConfig):
        return sources
    if isinstance(sources, Mapping):
        return ServeConfig(sources)
    raise ConfigError(
        f"Server: got {sources!r}; expected names with their sources: {{'name': 'graph.toml'}}"
    )


def read_model_config(path: Path, sources: SourceCache | None = None) -> list[ModelConfig]:
    """Returns the models of a ``models.config``, with their version policies and labels.

    Args:
        path: The file, a ``ModelServerConfig`` in protobuf's text form. A relative ``base_path``
            starts at the folder of the file.
        sources: The cache of the models at URLs. Needed for a ``base_path`` that is a URL.

    Raises:
        ConfigError: the file cannot be read or is invalid.
    """
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read ({error}); expected a models.config") from error
    try:
        config = TF_SERVING.parse_text("tensorflow.serving.ModelServerConfig", text, str(path))
    except Problem as problem:
        raise ConfigError(str(problem)) from problem
    return [*_models_of(config, str(path), path.parent, sources)]


def _models_of(
    config: Any, where: str, folder: Path, sources: SourceCache | None = None
) -> Iterator[ModelConfig]:
    if config.WhichOneof("config") == "custom_model_config":
        raise ConfigError(f"{where}: custom_model_config; expected model_config_list")
    for place, model in enumerate(config.model_config_list.config):
        for key in ("name", "base_path"):
            if not getattr(model, key):
                raise ConfigError(
                    f"{where}: config {place} ({model.name or model.base_path}) has no {key}"
                )
        base = model.base_path.removeprefix("file://")
        path, remote = find_origin(base if is_url(base) else folder / base, sources)
        settings = ModelSettings(_policy(model), dict(model.version_labels))
        yield ModelConfig(model.name, path, settings, remote)


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
    """Returns the models of a serialized ``ReloadConfigRequest``.

    Raises:
        Problem: the request has no config, or an invalid one.
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
