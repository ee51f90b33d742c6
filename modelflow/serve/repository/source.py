"""The sources of served models: graph files, models, folders with versions, and flows."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from modelflow.archive.suffix import is_archive_file
from modelflow.config.flow_config import FlowConfig
from modelflow.config.override import Environment
from modelflow.config.read import list_named_graphs, read_config
from modelflow.engine.lookup import engine_names, find_engine, find_versions, weight_files
from modelflow.engine.python.unread import describe_unread
from modelflow.errors import ConfigError, did_you_mean
from modelflow.flow import Flow
from modelflow.registry.folder import is_unit_file
from modelflow.serve.options import UNTUNED, Tuning
from modelflow.serve.repository.flows import (
    NODE,
    SignatureFlow,
    is_graph,
    list_placed,
    list_signatures,
)
from modelflow.serve.sources.cache import Found, RemoteCopy, SourceCache
from modelflow.serve.sources.url import is_url
from modelflow.serve.traffic.split import Split
from modelflow.starters.ready import ready_graphs

if TYPE_CHECKING:
    from modelflow.remote import PlacementEngine

_RECORDS = Path("assets.extra") / "tf_serving_warmup_requests"
_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class VersionPolicy:
    """The choice of versions to serve, as ``servable_version_policy`` of TensorFlow Serving.

    Attributes:
        latest: The number of newest versions. 0 for all versions.
        specific: These versions instead, even if they do not exist.
    """

    latest: int = 1
    specific: tuple[int, ...] = ()

    def choose(self, there: Collection[int]) -> list[int]:
        """Returns the versions to serve, oldest first.

        Includes missing versions of ``specific``.
        """
        if self.specific:
            return sorted(set(self.specific))
        return sorted(there)[-self.latest :] if self.latest else sorted(there)


LATEST = VersionPolicy()
"""The policy for only the newest version."""


def read_policy(text: str) -> VersionPolicy:
    """Parses ``latest``, ``all``, or numbers: ``3`` or ``1,2``.

    Raises:
        ConfigError: the text is none of these.
    """
    if text == "latest":
        return LATEST
    if text == "all":
        return VersionPolicy(latest=0)
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) for part in parts):
        raise ConfigError(f"versions: got {text!r}; expected latest, all, or numbers as in 1,2")
    return VersionPolicy(specific=tuple(map(int, parts)))


@dataclass(frozen=True, slots=True)
class ModelVersion:
    """A version of a model, as found on the disk.

    Attributes:
        number: The version number.
        stamp: A value that changes when the files of the version change.
        is_whole: The stamp covers all files of the version. This is true for models and archives,
            but not for a graph file, whose models may be anywhere.
        signatures: Returns the signatures. Called on a thread of the loader.
        records: The file of warm-up requests, which need not exist.
        tuning: The settings of a client in place of the files' settings.
        copy: The copy of a version at a URL, which must be fetched before a load.
    """

    number: int
    stamp: object
    is_whole: bool
    signatures: Callable[[], Sequence[SignatureFlow]]
    records: Path | None = None
    copy: RemoteCopy | None = None
    tuning: Tuning = field(default_factory=lambda: UNTUNED)

    def tune(self, tuning: Tuning) -> "ModelVersion":
        """Returns the version with settings of a client. They are loaded as a change of the files.

        Args:
            tuning: The settings. Empty for those of the files.
        """
        if not tuning:
            return self
        signatures: Any = self.signatures
        stamp = self.stamp, tuple(sorted(tuning.items()))
        made = partial(signatures, tuning=tuning)
        return replace(self, stamp=stamp, signatures=made, tuning=tuning)

    def open(self) -> Flow:
        """Returns the flow of the default signature, which does not run yet."""
        if self.copy is not None:
            self.copy.fetch(lambda: None)
        return self.signatures()[0].make(None)


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """The settings of a served model.

    Attributes:
        policy: The choice of versions.
        labels: By label the version, or the versions with their shares.
        overrides: Changes of node attributes, ``{"node.key": value}``.
        args: Values for ``[args]``.
        environment: Settings from environment variables, each for the models that it fits.
            ``overrides`` and ``args`` take precedence.
        batching: Attributes of the node of a model that is no graph. ``overrides`` take precedence.
        reader: The engine of models that are no graph: a name, or ``"module:Class"``. ``""`` for
            the engine that fits the form of the file.
        tuning: The settings of a client for the node whose calls count as calls of the model. They
            take precedence over all others.
        engine: Creates the placement engine of each loaded graph. A graph that is loaded again has
            new replicas. None if placed nodes run in this process.
    """

    policy: VersionPolicy = LATEST
    labels: Mapping[str, int | Split] = field(default_factory=lambda: _NOTHING)
    overrides: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    args: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    batching: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    environment: Environment = field(default_factory=Environment)
    reader: str = ""
    tuning: Tuning = field(default_factory=lambda: UNTUNED)
    engine: "Callable[[], PlacementEngine] | None" = None

    def of_model(self) -> "ModelSettings":
        """Returns the settings of a model that is no graph, for its single node."""
        fitting = self.environment.fitting((NODE,), ())
        return replace(self, overrides={**fitting.overrides, **self.overrides})


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """A configured model and its source.

    Attributes:
        name: The model's name in requests.
        origin: A path, or a flow. A flow is version 1 and can be loaded only once.
        settings: The settings of the model.
        remote: The files at the URL of the model. The path is then in their outline.
    """

    name: str
    origin: Path | Flow
    settings: ModelSettings = field(default_factory=ModelSettings)
    remote: Found | None = None

    def check(self) -> None:
        """Checks that the source exists.

        Raises:
            ConfigError: the source holds no graph or model.
        """
        remote = self.remote
        if remote is not None and remote.listing is None:
            raise ConfigError(remote.error)
        if not (isinstance(self.origin, Flow) or is_source(self.origin, self.settings.reader)):
            text = _absent(self.origin)
            if remote is not None:
                text = text.replace(str(remote.path), remote.source.shown)
            raise ConfigError(text)

    def names(self) -> tuple[set[str], set[str]]:
        """Returns the names of the nodes and arguments of all versions, for settings.

        Raises:
            ConfigError: the source holds no graph or model, or a graph cannot be read.
        """
        nodes: set[str] = set()
        args: set[str] = set()
        for graph in self._graphs():
            nodes |= {NODE} if graph is None else {node.name for node in graph.nodes}
            args |= set() if graph is None else set(graph.args)
        return nodes, args

    def list_placed(self) -> tuple[list[str], list[str]]:
        """Returns the nodes that the versions place, and the placements that the versions declare.

        Raises:
            ConfigError: the source holds no graph or model, or a graph cannot be read.
        """
        graphs = [graph for graph in self._graphs() if graph is not None]
        nodes = [node for graph in graphs for node in list_placed(graph, self.settings)]
        return nodes, [name for graph in graphs for name in graph.placements]

    def is_isolated(self) -> bool:
        """Tells whether a version asks for a separate process.

        Raises:
            ConfigError: the source holds no graph or model, or a graph cannot be read.
        """
        return any(graph is not None and graph.serve.is_isolated for graph in self._graphs())

    def _graphs(self) -> Iterator[FlowConfig | None]:
        """Yields the graph of each version, or None for a model that is no graph. Skips flows."""
        origin = self.origin
        if isinstance(origin, Flow):
            return
        for version in self.list_versions():
            found = find_versions(origin).get(version.number, origin)
            content = content_of(found, self.settings.reader) or found
            yield read_config(content) if is_graph(content) else None

    def list_versions(self) -> list[ModelVersion]:
        """Returns the versions to serve as found on the disk now, oldest first.

        Raises:
            ConfigError: the source holds no graph or model.
        """
        self.check()
        if isinstance(self.origin, Flow):
            flow = self.origin
            return [ModelVersion(1, id(flow), True, lambda: [SignatureFlow(lambda _: flow)])]
        path = self.origin
        there = find_versions(path)
        if not there:
            return [self._version(1, path)]
        chosen = self.settings.policy.choose(there)
        return [self._version(number, there.get(number, path / str(number))) for number in chosen]

    def _version(self, number: int, path: Path) -> ModelVersion:
        content = content_of(path, self.settings.reader) or path
        settings = self.settings if is_graph(content) else self.settings.of_model()
        is_whole = not is_graph(content) or is_archive_file(content)
        stamp: object
        copy = None
        if self.remote is None:
            stamp = _stamp(path)
        else:
            copy = self.remote.copy_of(_list_files(content, is_whole=is_whole))
            content, stamp, is_whole = copy.locate(content), copy.stamp, True
        signatures = partial(list_signatures, content, settings)
        return ModelVersion(number, stamp, is_whole, signatures, content / _RECORDS, copy)


def find_origin(origin: str | Path, sources: SourceCache | None) -> tuple[Path, Found | None]:
    """Returns the path of a source, and the files if the source is a URL.

    Args:
        origin: A path, or a URL.
        sources: The cache of the models at URLs. Needed for a URL.

    Raises:
        ConfigError, MissingDependencyError: As `SourceCache.find`.
    """
    if not is_url(origin):
        return Path(origin), None
    assert sources is not None  # URLs come from a `ServeConfig`, which has a cache
    found = sources.find(origin)
    return found.path, found


def _list_files(content: Path, *, is_whole: bool) -> list[Path]:
    """Returns the files and folders that a graph or a model needs. A graph needs its folder."""
    return [content, *weight_files(content)] if is_whole else [content.parent]


def is_source(path: Path, reader: str = "") -> bool:
    """Tells whether a path holds a graph file, a model, or a folder with versions.

    ``reader`` is the field of `ModelSettings`.
    """
    return content_of(path, reader) is not None or bool(find_versions(path))


def is_repository(path: Path, reader: str = "") -> bool:
    """Tells whether a path is a folder of models, and not a model itself."""
    return path.is_dir() and not is_source(path, reader)


def content_of(path: Path, reader: str = "") -> Path | None:
    """Returns the graph file or model to load for a path without versions, or None.

    The graph of a folder is the file ``graph.toml`` in it (or ``.yaml``, ``.json``, ``.dot``). With
    a ``reader`` any other file or folder is a model.
    """
    if path.is_dir():
        graphs = [one for one in sorted(path.glob("graph.*")) if is_graph(one)]
        if graphs:
            return graphs[0]
        if any(map(is_unit_file, path.glob("*.toml"))):
            return path
    elif is_graph(path):
        return path if path.is_file() else None
    if reader:
        return path if path.exists() else None
    readers = map(find_engine, engine_names())
    return path if any(engine.is_reader_of(path) for engine in readers) else None


def _stamp(path: Path) -> tuple[tuple[str, int, int], ...]:
    """Returns every file at a path, with its time and size."""
    return tuple(sorted(_files(path)))


def _files(path: Path) -> Iterator[tuple[str, int, int]]:
    for file in [path] if path.is_file() else path.rglob("*"):
        if file.is_file():
            found = file.stat()
            yield str(file), found.st_mtime_ns, found.st_size


def _absent(path: Path) -> str:
    if not path.exists():
        beside = [one.name for one in path.parent.iterdir()] if path.parent.is_dir() else []
        ready = list_named_graphs(ready_graphs()) if path.name == str(path) else ()
        near = did_you_mean(path.name, (*beside, *ready))
        return f"{path}: there is no such file or folder{near}; expected a graph file or a model"
    what = "a folder without anything to serve" if path.is_dir() else "neither a graph nor a model"
    expected = "a graph file, a model, or a folder with versions (1/ 2/ ...)"
    return f"{path}: {what}; expected {expected}{describe_unread(path)}"
