"""Writes the Python reference as Markdown: signatures and docstrings, read without an import."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import griffe

ROOT = Path(__file__).resolve().parents[1]

_WIDTH = 88
"""Columns that a signature may take before each parameter gets its own line."""

_LITERAL = re.compile(r"(?m)^(.*)::\n\n((?:    .*\n?|\n)+)")

_PUBLIC_SPECIAL = frozenset({"__array__", "__dlpack__", "__dlpack_device__", "__bytes__"})


class PythonPage:
    """Describes public names by their docstrings."""

    def __init__(self) -> None:
        self._package = griffe.load(
            "modelflow", search_paths=[str(ROOT)], docstring_parser="google"
        )

    def summary(self, path: str) -> str:
        """Returns the first sentence of a name's docstring.

        Args:
            path: The name with its module: ``modelflow.flow.flow.Flow``.
        """
        text = " ".join(self._text(self._find(path)).split("\n\n")[0].split())
        return re.split(r"(?<=\.)\s", text)[0]

    def heading(self, path: str, name: str) -> str:
        """Returns the heading of a name, which no other name has.

        ``Option`` and ``option`` have one anchor, so a function says that it is a function.
        """
        is_twin = name.islower() and name.capitalize() in self._package.all_members
        return f"{name} (function)" if is_twin and self._find(path).is_function else name

    def describe(self, path: str, module: str, name: str) -> Iterator[str]:
        """Yields the description of a class, a function or a type.

        Args:
            path: The name with its module.
            module: The module that users import the name from.
            name: The name there.
        """
        found = self._find(path)
        yield f"## {self.heading(path, name)}\n"
        yield f"```python\nfrom {module} import {name}\n```\n"
        if found.is_class:
            yield from self._describe_class(found, name)
        else:
            yield from self._describe_callable(found, name)

    def _find(self, path: str) -> griffe.Object:
        return _definition(self._package[path.removeprefix("modelflow.")])

    def _describe_class(self, found: griffe.Object, name: str) -> Iterator[str]:
        members = list(self._members(found))
        own = found.all_members.get("__init__")
        start = None if own is None else _definition(own)
        bases = [str(base) for base in getattr(found, "bases", ())]
        is_error = any(base.endswith(("Error", "Exception")) for base in bases)
        if is_error or name.endswith("Error"):
            yield f"An exception; it derives from {', '.join(f'`{base}`' for base in bases)}.\n"
        elif start is not None and "\nAttributes:" not in self._text(found):  # not a result
            yield _signature(name, start)
        yield from self._docstring(found)
        if start is not None:
            yield from self._docstring(start)
        fields = [
            (member.name, _typed(member.annotation) + self._text(member))
            for member in members
            if member.is_attribute
        ]
        if fields:
            yield "Properties:\n"
            yield _list(fields)
        for member in members:
            if member.is_function:
                yield f"### {name}.{member.name}\n"
                yield from self._describe_callable(member, f"{name}.{member.name}")

    def _describe_callable(self, found: griffe.Object, name: str) -> Iterator[str]:
        if found.is_function:
            yield _signature(name.rpartition(".")[2], found)
        elif found.is_attribute:
            yield f"```text\n{name} = {found.value}\n```\n"
        yield from self._docstring(found)

    def _members(self, found: griffe.Object) -> Iterator[griffe.Object]:
        for name, member in found.all_members.items():
            if name.startswith("_") and name not in _PUBLIC_SPECIAL:
                continue
            if _definition(member).docstring is not None:
                yield _definition(member)

    @staticmethod
    def _text(found: griffe.Object) -> str:
        return _markdown(found.docstring.value) if found.docstring else ""

    def _docstring(self, found: griffe.Object) -> Iterator[str]:
        for section in found.docstring.parse("google", warnings=False) if found.docstring else ():
            match section.kind:
                case griffe.DocstringSectionKind.text:
                    yield _markdown(section.value) + "\n"
                case griffe.DocstringSectionKind.parameters:
                    yield "Arguments:\n"
                    yield _list((part.name, _markdown(part.description)) for part in section.value)
                case griffe.DocstringSectionKind.attributes:
                    yield "Fields:\n"
                    yield _list(
                        (_names(part), _markdown(part.description)) for part in section.value
                    )
                case griffe.DocstringSectionKind.returns | griffe.DocstringSectionKind.yields:
                    text = _flat(_markdown(" ".join(_returned(part) for part in section.value)))
                    yield f"Returns: {text}\n"
                case griffe.DocstringSectionKind.raises:
                    yield "Raises:\n"
                    yield _list(
                        (str(part.annotation).strip("()"), _markdown(part.description))
                        for part in section.value
                    )
                case griffe.DocstringSectionKind.examples:
                    for kind, text in section.value:
                        is_code = kind is griffe.DocstringSectionKind.examples
                        yield f"```python\n{text}\n```\n" if is_code else _markdown(text) + "\n"


def _definition(found: griffe.Object | griffe.Alias) -> griffe.Object:
    return found.final_target if found.is_alias else found


def _returned(part: griffe.DocstringReturn | griffe.DocstringYield) -> str:
    # The parser takes a sentence with a colon for a named value.
    return f"{part.name}: {part.description}" if part.name else part.description


def _signature(name: str, function: griffe.Object) -> str:
    parameters = [
        _parameter(parameter)
        for parameter in _with_markers(list(function.parameters))
        if parameter == "*" or parameter.name not in ("self", "cls")
    ]
    returned = "" if name[:1].isupper() or not function.returns else f" -> {function.returns}"
    text = f"{name}({', '.join(parameters)}){returned}"
    if len(text) > _WIDTH:
        rows = "".join(f"    {parameter},\n" for parameter in parameters)
        text = f"{name}(\n{rows}){returned}"
    return f"```text\n{text}\n```\n"


def _with_markers(parameters: list[griffe.Parameter]) -> Iterator[griffe.Parameter | str]:
    """Yields the parameters, with ``*`` before the first that has to be named."""
    is_marked = False
    for parameter in parameters:
        if parameter.kind is griffe.ParameterKind.var_positional:
            is_marked = True
        if parameter.kind is griffe.ParameterKind.keyword_only and not is_marked:
            is_marked = True
            yield "*"
        yield parameter


def _parameter(parameter: griffe.Parameter | str) -> str:
    if isinstance(parameter, str):
        return parameter
    stars = {griffe.ParameterKind.var_positional: "*", griffe.ParameterKind.var_keyword: "**"}
    text = stars.get(parameter.kind, "") + parameter.name
    if parameter.annotation is not None:
        text += f": {parameter.annotation}"
    if parameter.default is not None and parameter.kind not in stars:
        text += f" = {parameter.default}" if parameter.annotation else f"={parameter.default}"
    return text


def _markdown(text: str) -> str:
    """Returns a docstring as Markdown: its literals and blocks of code in Markdown's form."""
    text = re.sub(r"``([^`]+)``", r"`\1`", text.strip())
    return _LITERAL.sub(_fence, text + "\n").rstrip()


def _fence(block: re.Match[str]) -> str:
    code = re.sub(r"(?m)^    ", "", block[2]).strip("\n")
    return f"{block[1] + ':' if block[1] else ''}\n\n```text\n{code}\n```\n\n".lstrip("\n")


def _names(part: griffe.DocstringAttribute) -> str:
    # The parser takes the first of several names ("x, y: ...") for a name, the rest for its type.
    return f"{part.name} {part.annotation}" if part.name.endswith(",") else part.name


def _typed(annotation: object) -> str:
    return f"`{annotation}`. " if annotation is not None else ""


def _list(parts: Iterable[tuple[str, str]]) -> str:
    return "".join(f"- `{name}`: {_flat(text)}\n" for name, text in parts)


def _flat(text: str) -> str:
    return " ".join(text.split())
