"""Where the objects of an application get their values: as they are, or as places for Helm."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, Protocol

from modelflow.deploy.yaml_text import ABSENT, Place


class Values(Protocol):
    """Gives the values that whoever deploys may want otherwise, by their path: ``a.b``."""

    @property
    def name(self) -> Any:
        """What the objects are called."""

    def of(self, path: str) -> Any:
        """Returns a value."""

    def plus(self, path: str, number: int) -> Any:
        """Returns a number, given as text or not, and so many more."""

    def digest(self, path: str) -> Any:
        """Returns a text that is another one when the value is."""

    def optional(self, path: str) -> Any:
        """Returns a value, for a key that is not there where it is empty."""

    def unless(self, flag: str, path: str) -> Any:
        """Returns a value, for a key that is not there where the value of ``flag`` is true."""


@dataclass(frozen=True)
class PlainValues:
    """The values as they are.

    Attributes:
        name: What the objects are called.
        values: All of them.
    """

    name: str
    values: Mapping[str, Any]

    def of(self, path: str) -> Any:
        """See `Values`."""
        return reduce(lambda found, key: found[key], path.split("."), self.values)

    def plus(self, path: str, number: int) -> Any:
        """See `Values`."""
        return int(self.of(path)) + number

    def digest(self, path: str) -> Any:
        """See `Values`."""
        import hashlib
        import json

        text = json.dumps(self.of(path), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def optional(self, path: str) -> Any:
        """See `Values`."""
        return self.of(path) or ABSENT

    def unless(self, flag: str, path: str) -> Any:
        """See `Values`."""
        return ABSENT if self.of(flag) else self.of(path)


class HelmValues:
    """Places in a chart: what stands there is JSON, which is YAML as well, and of the right type.

    Attributes:
        name: What the objects are called.
    """

    name = Place("{{ .Release.Name | quote }}")

    def of(self, path: str) -> Any:
        """See `Values`."""
        return Place(f"{{{{ toRawJson .Values.{path} }}}}")

    def plus(self, path: str, number: int) -> Any:
        """See `Values`."""
        return Place(f"{{{{ add .Values.{path} {number} }}}}")

    def digest(self, path: str) -> Any:
        """See `Values`."""
        return Place(f"{{{{ toRawJson .Values.{path} | sha256sum | quote }}}}")

    def optional(self, path: str) -> Any:
        """See `Values`."""
        return Place(f"{{{{ toRawJson .Values.{path} }}}}", f".Values.{path}")

    def unless(self, flag: str, path: str) -> Any:
        """See `Values`."""
        return Place(f"{{{{ toRawJson .Values.{path} }}}}", f"not .Values.{flag}")
