"""Protobuf messages from the text of their ``.proto``, without generated modules.

Every `Protocol` has a descriptor pool of its own: another package that brings modules generated
from the same files (TensorFlow, a client's library) does not collide with it, and no version of
protobuf is asked for but the one that is installed.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from modelflow.errors import MissingDependencyError, did_you_mean
from modelflow.wire.problem import Problem

try:
    from google.protobuf import (  # type: ignore[import-untyped]
        any_pb2,
        descriptor_pb2,
        descriptor_pool,
        message_factory,
        text_format,
        wrappers_pb2,
    )
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
except ImportError as error:
    package = "protobuf"
    raise MissingDependencyError(package, "serve", "gRPC") from error

__all__ = ["Protocol"]


class Protocol:
    """The messages and services of one protocol.

    Attributes:
        pool: The descriptors, for gRPC reflection.
    """

    def __init__(self, name: str, text: str) -> None:
        """Reads the text of one or more ``.proto`` files, each beginning with its ``package``.

        Args:
            name: What its files are called.
            text: ``message``, ``enum``, ``service``, ``oneof``, ``map``, ``repeated`` and
                ``optional`` of proto3, without comments and options. A file sees those before it
                and ``google.protobuf.Any`` and its wrappers.

        Raises:
            ValueError: the text is not of this form.
        """
        self.pool = descriptor_pool.DescriptorPool()
        known = [any_pb2.DESCRIPTOR, wrappers_pb2.DESCRIPTOR]
        for file in known:
            self.pool.AddSerializedFile(file.serialized_pb)
        names = [file.name for file in known]
        for file in _Reader(text).files(name):
            file.dependency.extend(names)
            self.pool.Add(file)
            names.append(file.name)
        self._classes: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        """Gives the class of a message by its full name.

        Raises:
            KeyError: there is none.
        """
        if name not in self._classes:
            found = self.pool.FindMessageTypeByName(name)
            self._classes[name] = message_factory.GetMessageClass(found)
        return self._classes[name]

    def enum(self, name: str) -> Mapping[str, int]:
        """Gives the numbers of an enumeration by its full name."""
        return {value.name: value.number for value in self.pool.FindEnumTypeByName(name).values}

    def methods(self, service: str) -> Mapping[str, Any]:
        """Gives the descriptors of a service's methods, by their names."""
        return dict(self.pool.FindServiceByName(service).methods_by_name)

    def file_named(self, name: str) -> Any | None:
        """Gives the descriptor of a file by its name; None: there is none."""
        try:
            return self.pool.FindFileByName(name)
        except KeyError:
            return None

    def file_with(self, symbol: str) -> Any | None:
        """Gives the descriptor of the file that describes a message, an enumeration, a service.

        Args:
            symbol: Its full name, or that of a method; None is returned where there is none.
        """
        for name in (symbol, symbol.rpartition(".")[0]):  # the pool knows no methods
            try:
                return self.pool.FindFileContainingSymbol(name)
            except KeyError:
                continue
        return None

    def parse(self, name: str, data: bytes) -> Any:
        """Returns the message that bytes hold.

        Raises:
            Problem: they are no such message.
        """
        message = (self._classes.get(name) or self[name])()
        try:
            message.ParseFromString(data)
        except DecodeError as error:
            text = f"{len(data)} bytes: no {name} ({error})"
            raise Problem(text) from error
        return message

    def parse_text(self, name: str, text: str, where: str) -> Any:
        """Returns the message that a text in protobuf's text form says.

        Args:
            name: The full name of its type.
            text: What was read.
            where: Where from, for messages.

        Raises:
            Problem: it is no such message; its line and column are named.
        """
        try:
            return text_format.Parse(text, self[name](), descriptor_pool=self.pool)
        except text_format.ParseError as error:
            message = (
                f"{where}:{error}{self._near(error)} (expected {name} in protobuf's text form)"
            )
            raise Problem(message) from error

    def _near(self, error: Exception) -> str:
        """Of a field that a message does not have, the nearest that it has."""
        found = re.search(r'"([\w.]+)" has no field named "(\w+)"', str(error))
        if found is None:
            return ""
        fields = self.pool.FindMessageTypeByName(found[1]).fields
        return did_you_mean(found[2], [field.name for field in fields])


class _Reader:
    """Reads the text of ``.proto`` files into descriptors; types are resolved by the pool."""

    def __init__(self, text: str) -> None:
        self._words: Iterator[str] = iter(re.findall(r"[\w.]+|[{}()=;<>,]|\S", text))

    def files(self, name: str) -> Iterator[Any]:
        file = None
        for word in self._words:
            if word == "package":
                if file is not None:
                    yield file
                package = self._statement()[0]
                path = f"modelflow/{name}/{package}.proto"
                file = descriptor_pb2.FileDescriptorProto(
                    name=path, package=package, syntax="proto3"
                )
            elif file is None:
                message = f"{word!r} before the first package"
                raise ValueError(message)
            elif word == "message":
                self._message(file.message_type.add())
            elif word == "enum":
                self._enum(file.enum_type.add())
            elif word == "service":
                self._service(file.service.add())
            else:
                message = f"{word!r}; expected package, message, enum or service"
                raise ValueError(message)
        if file is not None:
            yield file

    def _statement(self) -> list[str]:
        """The words up to the next semicolon."""
        return list(iter(lambda: next(self._words, ";"), ";"))

    def _open(self) -> str:
        name = next(self._words)
        if (word := next(self._words)) != "{":
            message = f"{word!r} behind {name!r}; expected '{{'"
            raise ValueError(message)
        return name

    def _message(self, message: Any, *, oneof: int | None = None) -> None:
        if oneof is None:
            message.name = self._open()
        for word in iter(lambda: next(self._words), "}"):
            if word == "message":
                self._message(message.nested_type.add())
            elif word == "enum":
                self._enum(message.enum_type.add())
            elif word == "oneof":
                message.oneof_decl.add(name=self._open())
                self._message(message, oneof=len(message.oneof_decl) - 1)
            else:
                self._field(message, [word, *self._statement()], oneof)
        if oneof is None:
            _name_optionals(message)

    def _field(self, message: Any, words: list[str], oneof: int | None) -> None:
        *kind, name, equals, number = words
        if equals != "=":
            text = f"{' '.join(words)!r}; expected a field: TYPE NAME = NUMBER"
            raise ValueError(text)
        field = message.field.add(name=name, number=int(number), label=_KINDS.LABEL_OPTIONAL)
        if kind[0] == "map":
            _, _, key, _, value, _ = kind
            entry = message.nested_type.add(name=_entry_name(name))
            entry.options.map_entry = True
            for at, (part, of_type) in enumerate((("key", key), ("value", value)), 1):
                _set_type(
                    entry.field.add(name=part, number=at, label=_KINDS.LABEL_OPTIONAL), of_type
                )
            kind = ["repeated", entry.name]
        if kind[0] == "repeated":
            field.label = _KINDS.LABEL_REPEATED
        field.proto3_optional = kind[0] == "optional"
        if oneof is not None:
            field.oneof_index = oneof
        _set_type(field, kind[-1])

    def _enum(self, enum: Any) -> None:
        enum.name = self._open()
        for word in iter(lambda: next(self._words), "}"):
            _, number = self._statement()
            enum.value.add(name=word, number=int(number))

    def _service(self, service: Any) -> None:
        service.name = self._open()
        for _ in iter(lambda: next(self._words), "}"):
            words = [word for word in self._statement() if word not in "()"]
            split = words.index("returns")
            service.method.add(
                name=words[0],
                input_type=words[split - 1],
                output_type=words[-1],
                client_streaming="stream" in words[:split],
                server_streaming="stream" in words[split:],
            )


_KINDS = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    name.removeprefix("TYPE_").lower(): number
    for name, number in _KINDS.Type.items()
    if name not in ("TYPE_MESSAGE", "TYPE_ENUM", "TYPE_GROUP")
}


def _set_type(field: Any, name: str) -> None:
    if name in _SCALARS:
        field.type = _SCALARS[name]
    else:
        field.type_name = name  # relative: the pool looks for it, and whether it is an enumeration


def _entry_name(field: str) -> str:
    return "".join(part.capitalize() for part in field.split("_")) + "Entry"


def _name_optionals(message: Any) -> None:
    """Proto3 keeps a field that may be absent in a oneof of its own, behind all others."""
    for field in message.field:
        if field.proto3_optional:
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{field.name}")
