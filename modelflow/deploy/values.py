"""Writes YAML from values: plain, or as placeholders that a Helm chart fills."""

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
"""The value of a missing key."""


@dataclass(frozen=True)
class Place:
    """A placeholder in a template.

    Attributes:
        text: The action, in its braces.
        condition: The condition under which its key exists. If empty, the key always exists.
    """

    text: str
    condition: str = ""


# Texts that Kubernetes and Helm read as numbers or booleans, but PyYAML does not.
_OTHERWISE = re.compile(r"[yYnN]|[-+]?[0-9_.]*[0-9][0-9_.]*([eE][-+]?[0-9_]+)?|0o[0-7_]+")


class _Dumper(yaml.SafeDumper):
    """Writes repeated values twice, without anchors, and quotes ambiguous texts."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - true for any data
        return True

    def represent_str(self, data: str) -> yaml.ScalarNode:
        style = "'" if _OTHERWISE.fullmatch(data) else None
        return self.represent_scalar("tag:yaml.org,2002:str", data, style)


_Dumper.add_representer(str, _Dumper.represent_str)


def yaml_text(*documents: Any, note: str = "", condition: str = "") -> str:
    """Returns documents as YAML.

    Args:
        documents: Lists, mappings, texts, numbers, and `Place`s among their values.
        note: A comment for the top of the file.
        condition: The condition under which a template has documents. If empty, it always has.
    """
    places: list[Place] = []
    mark = f"PLACE_{secrets.token_hex(16)}_"  # random, so no value contains it
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
    """Returns the value without missing keys, and with a token for each placeholder."""
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
    """The changeable values of a deployment, by their path: ``a.b``.

    Attributes:
        name: The name of the objects.
        values: All values.
    """

    name: str
    values: Mapping[str, Any]

    def of(self, path: str) -> Any:
        """Returns a value."""
        return reduce(lambda found, key: found[key], path.split("."), self.values)

    def plus(self, path: str, number: int) -> Any:
        """Returns the sum of a number, also given as text, and ``number``."""
        return int(self.of(path)) + number

    def digest(self, path: str) -> Any:
        """Returns a text that changes with the value."""
        text = json.dumps(self.of(path), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def optional(self, path: str) -> Any:
        """Returns a value, or `ABSENT` if the value is empty."""
        return self.of(path) or ABSENT

    def unless(self, flag: str, path: str) -> Any:
        """Returns a value, or `ABSENT` if the value of ``flag`` is true."""
        return ABSENT if self.of(flag) else self.of(path)


class HelmValues:
    """Placeholders of a chart, replaced by JSON, which is also YAML and keeps the type.

    Attributes:
        name: The name of the objects.
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
"""The source of the values of Kubernetes objects."""
