"""An edited text of a graph and its contents, even if the text has errors."""

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
from modelflow.studio.edit.picture.sketch import Sketch, sketch_of

_Found = TypeVar("_Found")


class _CheckedOnce(Generic[_Found]):
    """A property that is computed at the first access, like `functools.cached_property`.

    `cached_property` of Python 3.11 has one lock for all drafts. If the import of a unit for one
    draft never returned, it would block all other drafts.
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
    """The text of a graph file during editing.

    Attributes:
        text: The text.
        path: The file that the text is for.
        given: Values for arguments of the graph. Unknown arguments are ignored.
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
        """The text in the form for edits.

        Raises:
            ConfigError: The text is no graph. Only the text itself can be edited, and nothing is
                drawn.
        """
        return GraphText.read(self.text, self.form, str(self.path))

    @_CheckedOnce
    def registry(self) -> Registry:
        """The units of the graph's folders, and all other units.

        Raises:
            ConfigError: A unit's file has an error.
        """
        return Registry(
            [self.path.parent / folder for folder in self.folders],
            skip_default=self.driver.get("skip-default") is True,
        )

    @property
    def folders(self) -> list[str]:
        """The folders of units that the text names."""
        dirs = self.driver.get("dir", ())
        folders = [dirs] if isinstance(dirs, str) else dirs if isinstance(dirs, list) else []
        return [folder for folder in folders if isinstance(folder, str)]

    @_CheckedOnce
    def driver(self) -> dict[str, Any]:
        """The values of ``[driver]``, or an empty dict if the text cannot be read."""
        if self.form != "toml":
            return {}
        try:
            found = read_toml(self.text, str(self.path)).values.get("driver")
        except ConfigError:
            return {}
        return found if isinstance(found, dict) else {}

    @_CheckedOnce
    def sketch(self) -> Sketch:
        """The picture of the graph.

        Raises:
            ConfigError: The text is no graph.
        """
        return sketch_of(self.graph_text, self.units)

    @property
    def units(self) -> Registry:
        """The usable units; without the units of folders if a unit's file has an error."""
        try:
            return self.registry
        except ConfigError:  # the check reports the file
            return Registry()

    @_CheckedOnce
    def config(self) -> FlowConfig:
        """The configuration that the text describes.

        Raises:
            ConfigError: The text cannot be read.
        """
        return read_text_config(self.text, self.form, self.path)

    @_CheckedOnce
    def check(self) -> "Checked":
        """The graph, or all errors of the text."""
        try:
            given = {name: value for name, value in self.given.items() if name in self.config.args}
            graph = read_graph(self.config, args=given)
        except ModelflowError as error:
            findings: tuple[Finding, ...] = getattr(error, "findings", ())
            return Checked(None, findings or (Finding(Location(str(self.path)), str(error)),))
        return Checked(graph)


class Checked(NamedTuple):
    """The result of a check.

    Attributes:
        graph: The graph. None if the text has errors.
        findings: The errors.
    """

    graph: Graph | None
    findings: tuple[Finding, ...] = ()
