"""YAML made of values: as they are, or as placeholders that a chart of Helm fills."""

import hashlib
import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import yaml

ABSENT: Any = object()
"""The value of a key that is not there."""


@dataclass(frozen=True)
class Place:
    """What a template is to put in.

    Attributes:
        text: The action, in its braces.
        condition: When the key that has it is there; ``""``: always.
    """

    text: str
    condition: str = ""


# Texts that Kubernetes and Helm read as numbers, or true and false, and PyYAML does not.
_OTHERWISE = re.compile(r"[yYnN]|[-+]?[0-9_.]*[0-9][0-9_.]*([eE][-+]?[0-9_]+)?|0o[0-7_]+")


class _Dumper(yaml.SafeDumper):
    """Writes what stands at two places twice, without an anchor, and texts as all read them."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - whatever it is
        return True

    def represent_str(self, data: str) -> yaml.ScalarNode:
        style = "'" if _OTHERWISE.fullmatch(data) else None
        return self.represent_scalar("tag:yaml.org,2002:str", data, style)


_Dumper.add_representer(str, _Dumper.represent_str)


def yaml_text(*documents: Any, note: str = "", condition: str = "") -> str:
    """Returns documents as YAML.

    Args:
        documents: Lists, mappings, texts, numbers, and `Place`s among their values.
        note: What stands above it, as a comment.
        condition: An action of templates that must hold for there to be any; ``""``: always.
    """
    places: list[Place] = []
    mark = f"PLACE_{secrets.token_hex(16)}_"  # stands in no value
    written = [_write(each, places, mark) for each in documents]
    text = yaml.dump_all(written, Dumper=_Dumper, sort_keys=False, width=100, allow_unicode=True)

    def conditional(found: re.Match[str]) -> str:
        wish = places[int(found[1])].condition
        return f"{{{{- if {wish} }}}}\n{found[0]}\n{{{{- end }}}}" if wish else found[0]

    text = re.sub(rf"^.*{mark}(\d+)_HERE$", conditional, text, flags=re.MULTILINE)
    text = re.sub(rf"{mark}(\d+)_HERE", lambda found: places[int(found[1])].text, text)
    text = "".join(f"# {line}\n" for line in note.splitlines()) + text
    return f"{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n" if condition else text


def _write(value: Any, places: list[Place], mark: str) -> Any:
    """Leaves out the keys that are not there, and puts a token wherever a place is."""
    if isinstance(value, Place):
        places.append(value)
        return f"{mark}{len(places) - 1}_HERE"
    if isinstance(value, Mapping):
        return {
            key: _write(each, places, mark) for key, each in value.items() if each is not ABSENT
        }
    if isinstance(value, list | tuple):
        return [_write(each, places, mark) for each in value]
    return value


@dataclass(frozen=True)
class PlainValues:
    """The values that whoever deploys may want otherwise, as they are, by their path: ``a.b``.

    Attributes:
        name: What the objects are called.
        values: All of them.
    """

    name: str
    values: Mapping[str, Any]

    def of(self, path: str) -> Any:
        """Returns a value."""
        return reduce(lambda found, key: found[key], path.split("."), self.values)

    def plus(self, path: str, number: int) -> Any:
        """Returns a number, given as text or not, and so many more."""
        return int(self.of(path)) + number

    def digest(self, path: str) -> Any:
        """Returns a text that is another one when the value is."""
        text = json.dumps(self.of(path), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def optional(self, path: str) -> Any:
        """Returns a value, for a key that is not there where it is empty."""
        return self.of(path) or ABSENT

    def unless(self, flag: str, path: str) -> Any:
        """Returns a value, for a key that is not there where the value of ``flag`` is true."""
        return ABSENT if self.of(flag) else self.of(path)


class HelmValues:
    """Places in a chart: what stands there is JSON, which is YAML as well, and of the right type.

    Attributes:
        name: What the objects are called.
    """

    name = Place("{{ .Release.Name | quote }}")

    def of(self, path: str) -> Any:
        """See `PlainValues`."""
        return Place(f"{{{{ toRawJson .Values.{path} }}}}")

    def plus(self, path: str, number: int) -> Any:
        """See `PlainValues`."""
        return Place(f"{{{{ add .Values.{path} {number} }}}}")

    def digest(self, path: str) -> Any:
        """See `PlainValues`."""
        return Place(f"{{{{ toRawJson .Values.{path} | sha256sum | quote }}}}")

    def optional(self, path: str) -> Any:
        """See `PlainValues`."""
        return Place(f"{{{{ toRawJson .Values.{path} }}}}", f".Values.{path}")

    def unless(self, flag: str, path: str) -> Any:
        """See `PlainValues`."""
        return Place(f"{{{{ toRawJson .Values.{path} }}}}", f"not .Values.{flag}")


Values = PlainValues | HelmValues
"""Where the objects of Kubernetes have their values from."""
