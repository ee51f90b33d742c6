"""Converts the text of ``.proto`` files to descriptors. Imports protobuf."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from modelflow.errors import MissingDependencyError

try:
    from google.protobuf import (  # type: ignore[import-untyped]
        any_pb2,
        descriptor_pb2,
        descriptor_pool,
        wrappers_pb2,
    )
except ImportError as error:
    raise MissingDependencyError("protobuf", "serve", "gRPC") from error


def make_pool(files: Mapping[str, str]) -> Any:
    """Returns the descriptors of ``.proto`` files.

    Args:
        files: The texts by their names, each after the files that it imports. The texts may use
            ``message``, ``enum``, ``service``, ``oneof``, ``map``, ``repeated`` and ``optional`` of
            proto3, without options. They can import ``google.protobuf.Any`` and its wrappers.

    Raises:
        ValueError: A text has another form.
    """
    pool = descriptor_pool.DescriptorPool()
    for known in (any_pb2, wrappers_pb2):
        pool.AddSerializedFile(known.DESCRIPTOR.serialized_pb)
    for name, text in files.items():
        pool.Add(_Reader(text).file(name))
    return pool


class _Reader:
    """Parses the text of a ``.proto`` file into descriptors; the pool resolves the types."""

    def __init__(self, text: str) -> None:
        words = re.findall(r'"[^"]*"|[\w.]+|[{}()=;<>,]|\S', re.sub(r"//.*", "", text))
        self._words: Iterator[str] = iter(words)

    def file(self, name: str) -> Any:
        file = descriptor_pb2.FileDescriptorProto(name=name, syntax="proto3")
        for word in self._words:
            if word == "syntax":
                self._statement()
            elif word == "package":
                (file.package,) = self._statement()
            elif word == "import":
                file.dependency.append(self._statement()[0].strip('"'))
            elif word == "message":
                self._message(file.message_type.add())
            elif word == "enum":
                self._enum(file.enum_type.add())
            elif word == "service":
                self._service(file.service.add())
            else:
                raise ValueError(
                    f"{name}: {word!r}; expected package, import, message, enum or service"
                )
        return file

    def _statement(self) -> list[str]:
        """Returns the words up to the next semicolon."""
        return list(iter(lambda: next(self._words, ";"), ";"))

    def _open(self) -> str:
        name = next(self._words)
        if (word := next(self._words)) != "{":
            raise ValueError(f"{word!r} behind {name!r}; expected '{{'")
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
            raise ValueError(f"{' '.join(words)!r}; expected a field: TYPE NAME = NUMBER")
        field = message.field.add(name=name, number=int(number), label=_KINDS.LABEL_OPTIONAL)
        if kind[0] == "map":
            _, _, key, _, value, _ = kind
            title = "".join(part.capitalize() for part in name.split("_"))
            entry = message.nested_type.add(name=f"{title}Entry")
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
        field.type_name = name  # relative: the pool resolves it and finds the kind of type


def _name_optionals(message: Any) -> None:
    """Puts each optional field into its own oneof after all others, as proto3 requires."""
    for field in message.field:
        if field.proto3_optional:
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{field.name}")
