"""YAML and JSON as plain values, with the line of every key, in bounded time and memory.

A text may come from outside. A short text with aliases may expand to billions of values, or to an
endless value. Therefore aliases count with their expanded size, and the loader refuses such a text
while reading.
"""

import json
from typing import Any

import yaml

from modelflow.config.document import MOST_NESTED, Document, Path, mistake

_MOST_VALUES = 100_000
_LONGEST_NUMBER = 100
_NULL = "tag:yaml.org,2002:null"
_TEXTS = ("tag:yaml.org,2002:str", "tag:yaml.org,2002:merge")
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


def read_yaml(text: str, file: str) -> Document:
    """Parses YAML (plain values only).

    Raises:
        ConfigError: The text is not YAML, is no mapping, or expands to too many values. The message
            has the line.
    """
    loader = None
    try:
        loader = _Loader(text)  # raises for a character that YAML does not allow
        node = loader.get_single_node()
        values = None if node is None else loader.construct_document(node)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error)
        raise mistake(file, mark.line + 1 if mark else None, f"YAML: {problem}") from error
    except ValueError as error:  # an invalid date
        raise mistake(file, None, f"YAML: {error}") from error
    finally:
        if loader is not None:
            loader.dispose()
    return Document(_mapping(values, file), _lines(node), file, text)


def read_json(text: str, file: str) -> Document:
    """Parses JSON.

    Raises:
        ConfigError: The text is not JSON, is no object, or is nested too deeply; the message has
            the line.
    """
    try:
        # JSON without tabs between tokens is YAML. YAML only gives the lines; `json` gives the
        # values.
        node = yaml.compose(text.replace("\t", " "), Loader=_Loader)
    except _Refused as error:
        raise mistake(file, error.line, f"JSON: {error}") from error
    except yaml.YAMLError:
        node = None
    try:
        values = json.loads(text)
    except json.JSONDecodeError as error:
        raise mistake(file, error.lineno, f"JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:  # YAML has failed before, without a message
        raise mistake(file, None, f"JSON: {error}") from error
    return Document(_mapping(values, file), _lines(node), file, text)


def _mapping(values: Any, file: str) -> dict[str, Any]:
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise mistake(file, 1, f"got {type(values).__name__} at the top; expected sections")
    return values


class _Refused(yaml.composer.ComposerError):
    """Raised for a valid text that expands to more than a graph may contain."""

    def __init__(self, problem: str, mark: Any) -> None:
        super().__init__(None, None, problem, mark)
        self.line: int = mark.line + 1

    def __str__(self) -> str:
        return str(self.problem)


class _Loader(yaml.SafeLoader):
    """A safe loader that counts, for each node, the values after expansion."""

    def __init__(self, stream: Any) -> None:
        super().__init__(stream)
        self._depth = 0
        # Complete node -> (values after expansion, levels of nesting).
        self._extents: dict[int, tuple[int, int]] = {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        is_alias = self.check_event(yaml.AliasEvent)
        self._depth += 1
        if self._depth > MOST_NESTED:
            raise _refuse(event, f"values are nested more than {MOST_NESTED} deep")
        node: Any = super().compose_node(parent, index)
        if is_alias and id(node) not in self._extents:
            raise _refuse(event, f"*{event.anchor} is used inside its own value")
        self._depth -= 1
        self._measure(node, event)
        return node

    def _measure(self, node: Any, event: Any) -> None:
        if id(node) in self._extents:
            return
        inner: list[Any] = []
        if isinstance(node, yaml.MappingNode):
            inner = [part for pair in node.value for part in pair]
            _check_keys(node)
        elif isinstance(node, yaml.SequenceNode):
            inner = node.value
        elif node.tag in _NUMBERS and len(node.value) > _LONGEST_NUMBER:
            raise _refuse(event, f"got a number of {len(node.value)} characters")
        extents = [self._extents[id(part)] for part in inner]
        values = 1 + sum(values for values, _ in extents)
        nested = 1 + max((nested for _, nested in extents), default=0)
        if values > _MOST_VALUES:
            raise _refuse(event, f"stands for more than {_MOST_VALUES} values, aliases counted")
        if nested > MOST_NESTED:
            raise _refuse(event, f"values are nested more than {MOST_NESTED} deep")
        self._extents[id(node)] = values, nested


def _check_keys(node: yaml.MappingNode) -> None:
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode) or key.tag == _NULL:
            raise _refuse(key, "got a key without a name; expected a text")
        if key.tag not in _TEXTS:
            kind = key.tag.rpartition(":")[2]
            raise _refuse(key, f"got the key {key.value}, which is no text ({kind}); quote it")


def _refuse(place: Any, problem: str) -> _Refused:
    return _Refused(problem, place.start_mark)


def _lines(node: Any) -> dict[Path, int]:
    lines: dict[Path, int] = {}
    if node is not None:
        _add_lines(node, (), lines)
    return lines


def _add_lines(node: Any, path: Path, lines: dict[Path, int]) -> None:
    lines.setdefault(path, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            here = (*path, str(key.value))
            lines[here] = key.start_mark.line + 1
            _add_lines(value, here, lines)
    elif isinstance(node, yaml.SequenceNode):
        for place, value in enumerate(node.value):
            _add_lines(value, (*path, place), lines)
