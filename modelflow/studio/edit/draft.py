"""A text that somebody works on: what it says, whether or not it is right."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from modelflow.config.document import read_toml
from modelflow.config.edit.graph_text import GraphText
from modelflow.config.flow_config import FlowConfig
from modelflow.config.read import form_of, read_text_config
from modelflow.errors import ConfigError, Finding, Location, ModelflowError
from modelflow.graph.graph import Graph
from modelflow.graph.read import read_graph
from modelflow.registry.registry import Registry
from modelflow.studio.edit.sketch import Sketch, sketch_of

_Found = TypeVar("_Found")


class _CheckedOnce(Generic[_Found]):
    """A property that is found out at the first look, as `functools.cached_property`.

    That of Python 3.11 holds one lock for all drafts: a unit that does not return when it is
    imported for one of them would hold up all others.
    """

    def __init__(self, find: Callable[[Any], _Found]) -> None:
        self._find = find
        self.__doc__ = find.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, draft: Any, owner: type | None = None) -> _Found:
        found = draft.__dict__[self._name] = self._find(draft)
        return found


@dataclass(frozen=True)
class Draft:
    """The text of a graph file, as it is while it is edited.

    Attributes:
        text: The text.
        path: The file that it is for.
        given: Values for arguments of the graph; those that it has not are passed over.
    """

    text: str
    path: Path
    given: Mapping[str, str] = field(default_factory=dict)

    @property
    def form(self) -> str:
        """``toml`` or ``dot``, by the file's name."""
        return form_of(self.path)

    @_CheckedOnce
    def graph_text(self) -> GraphText:
        """What can be edited.

        Raises:
            ConfigError: the text is no graph, and nothing can be drawn or edited but the text.
        """
        return GraphText.read(self.text, self.form, str(self.path))

    @_CheckedOnce
    def registry(self) -> Registry:
        """The units that its folders have, and all others.

        Raises:
            ConfigError: a unit's file is wrong.
        """
        return Registry(
            [self.path.parent / folder for folder in self.folders],
            skip_default=self.driver.get("skip-default") is True,
        )

    @property
    def folders(self) -> list[str]:
        """The folders of units that it names."""
        dirs = self.driver.get("dir", ())
        folders = [dirs] if isinstance(dirs, str) else dirs if isinstance(dirs, list) else []
        return [folder for folder in folders if isinstance(folder, str)]

    @_CheckedOnce
    def driver(self) -> dict[str, Any]:
        """What ``[driver]`` says, as far as it can be read: a draft may be wrong anywhere."""
        if self.form != "toml":
            return {}
        try:
            found = read_toml(self.text, str(self.path)).values.get("driver")
        except ConfigError:
            return {}
        return found if isinstance(found, dict) else {}

    @_CheckedOnce
    def sketch(self) -> Sketch:
        """What can be drawn.

        Raises:
            ConfigError: nothing: the text is no graph.
        """
        return sketch_of(self.graph_text, self.units)

    @property
    def units(self) -> Registry:
        """The units that can be used; where the file of one is wrong, those of no folder."""
        try:
            return self.registry
        except ConfigError:  # the check says which
            return Registry()

    @_CheckedOnce
    def config(self) -> FlowConfig:
        """What it says.

        Raises:
            ConfigError: it cannot be read.
        """
        return read_text_config(self.text, self.form, self.path)

    @_CheckedOnce
    def check(self) -> "Checked":
        """The graph, or everything that is wrong with it."""
        try:
            given = {name: value for name, value in self.given.items() if name in self.config.args}
            graph = read_graph(self.config, args=given)
        except ModelflowError as error:
            findings: tuple[Finding, ...] = getattr(error, "findings", ())
            return Checked(None, findings or (Finding(Location(str(self.path)), str(error)),))
        return Checked(graph)


class Checked(NamedTuple):
    """What a check has come to.

    Attributes:
        graph: The graph; None: it is wrong.
        findings: What is wrong.
    """

    graph: Graph | None
    findings: tuple[Finding, ...] = ()
