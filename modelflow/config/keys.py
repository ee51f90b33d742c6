"""The keys of a document, read by their schema; what is wrong with them is collected."""

from collections.abc import Mapping, Sequence
from typing import Any

from modelflow.config.document import Document
from modelflow.errors import ConfigError, Finding, Location, did_you_mean
from modelflow.unit.option import Option

__all__ = ["KeyReader"]


class KeyReader:
    """Reads tables of one document.

    Attributes:
        findings: What is wrong, so far, each with its line.
    """

    def __init__(self, document: Document) -> None:
        """Takes the document, for the lines of its keys."""
        self.findings: list[Finding] = []
        self._document = document

    def at(self, *path: str | int) -> Location:
        """Returns where a key stands, or what holds it."""
        return self._document.at(*path)

    def wrong(self, path: Sequence[str | int], message: str) -> None:
        """Notes a mistake at a key."""
        self.findings.append(Finding(self.at(*path), message, error=ConfigError))

    def table(self, path: Sequence[str], given: Any) -> Mapping[str, Any]:
        """Returns ``given``, which stands at ``path``; empty where it is no table."""
        if isinstance(given, Mapping):
            return given
        where = f"[{'.'.join(path)}]"
        self.wrong(path, f"{where}: got {given!r:.60}; expected a section {where}")
        return {}

    def read(self, path: Sequence[str], given: Any, options: Sequence[Option]) -> dict[str, Any]:
        """Returns the values of a table, converted; what is left out or wrong has its default.

        A key that is required and left out has ``""``.

        Args:
            path: Where it stands.
            given: What stands there.
            options: Its keys.
        """
        where, table = f"[{'.'.join(path)}]", self.table(path, given)
        known = {name: option for option in options for name in (option.name, *option.aliases)}
        found = {option.name: "" if option.is_required else option.default for option in options}
        for key, value in table.items():
            if key not in known:
                near, names = did_you_mean(key, known), ", ".join(o.name for o in options)
                self.wrong((*path, key), f"{where}: unknown key {key!r}{near} (keys: {names})")
                continue
            try:
                found[known[key].name] = known[key].convert(value, f"key {key!r}")
            except ConfigError as error:
                self.wrong((*path, key), f"{where}: {error}")
        for option in options:
            if option.is_required and not table.get(option.name, ""):
                self.wrong(path, f"{where}: {option.name!r} is required: {option.help}")
        return found
