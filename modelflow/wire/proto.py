"""Protobuf messages from their ``.proto`` files, without generated modules.

Every `Protocol` has its own descriptor pool. It does not collide with other packages whose modules
are generated from the same files (TensorFlow, a client's library), and it works with any installed
version of protobuf. protobuf is imported with the first message: a server with REST alone does not
need it.
"""

import re
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from modelflow.errors import did_you_mean
from modelflow.wire.problem import refuse

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable


class Protocol:
    """The messages and services of one protocol. Safe from any thread."""

    def __init__(self, *names: str, root: "Traversable | None" = None) -> None:
        """Takes the names of ``.proto`` files, which are read with the first message.

        Args:
            names: The files, each after the files that it imports, written as in an ``import``.
            root: The folder that the names are relative to. None for the folder that contains the
                package `modelflow`.
        """
        self._names, self._root = names, root
        self._classes: dict[str, Any] = {}
        self._pool: Any = None
        self._making = threading.Lock()

    @property
    def pool(self) -> Any:
        """The descriptors, for gRPC reflection.

        Raises:
            MissingDependencyError: protobuf is not installed.
            ValueError: A file has a syntax error or uses an unsupported statement.
        """
        if self._pool is None:
            from modelflow.wire.proto_files import make_pool

            with self._making:
                if self._pool is None:
                    self._pool = make_pool({name: self._read(name) for name in self._names})
        return self._pool

    def __getitem__(self, name: str) -> Any:
        """Returns the class of a message by its full name.

        Raises:
            KeyError: No message has that name.
        """
        if name not in self._classes:
            found = self.pool.FindMessageTypeByName(name)
            from google.protobuf import message_factory  # type: ignore[import-untyped]

            self._classes[name] = message_factory.GetMessageClass(found)
        return self._classes[name]

    def enum(self, name: str) -> Mapping[str, int]:
        """Returns the numbers of an enumeration by its full name."""
        return {value.name: value.number for value in self.pool.FindEnumTypeByName(name).values}

    def methods(self, service: str) -> Mapping[str, Any]:
        """Returns the descriptors of a service's methods, by their names."""
        return dict(self.pool.FindServiceByName(service).methods_by_name)

    def find_file(self, name: str) -> Any | None:
        """Returns the descriptor of a file by its name, or None if no file has that name."""
        try:
            return self.pool.FindFileByName(name)
        except KeyError:
            return None

    def file_with(self, symbol: str) -> Any | None:
        """Returns the descriptor of the file that describes a message, an enumeration or a service.

        Args:
            symbol: The full name, or the full name of a method.

        Returns:
            The descriptor. None if no file describes the symbol.
        """
        for name in (symbol, symbol.rpartition(".")[0]):  # the pool knows no methods
            try:
                return self.pool.FindFileContainingSymbol(name)
            except KeyError:
                continue
        return None

    def parse(self, name: str, data: bytes) -> Any:
        """Parses bytes into a message.

        Raises:
            Problem: The bytes are no such message.
        """
        message = (self._classes.get(name) or self[name])()
        try:
            message.ParseFromString(data)
        except _decode_error() as error:
            refuse(f"{len(data)} bytes: no {name} ({error})", cause=error)
        return message

    def parse_text(self, name: str, text: str, where: str, *, takes_unknown: bool = False) -> Any:
        """Parses protobuf's text form into a message.

        Args:
            name: The full name of the message's type.
            text: The text.
            where: The source of the text, for messages.
            takes_unknown: Whether fields that the message does not have are ignored.

        Raises:
            Problem: The text is no such message. The error names line and column.
        """
        message_class = self[name]
        from google.protobuf import text_format

        try:
            return text_format.Parse(
                text, message_class(), allow_unknown_field=takes_unknown, descriptor_pool=self.pool
            )
        except text_format.ParseError as error:
            refuse(
                f"{where}:{error}{self._near(error)} (expected {name} in protobuf's text form)",
                cause=error,
            )

    def _read(self, name: str) -> str:
        if self._root is not None:
            return self._root.joinpath(name).read_text()
        from importlib.resources import files

        package, _, path = name.partition("/")
        return files(package).joinpath(path).read_text()

    def _near(self, error: Exception) -> str:
        """Returns a hint with the nearest field name for an unknown field of a message."""
        found = re.search(r'"([\w.]+)" has no field named "(\w+)"', str(error))
        if found is None:
            return ""
        fields = self.pool.FindMessageTypeByName(found[1]).fields
        return did_you_mean(found[2], [field.name for field in fields])


def _decode_error() -> type[Exception]:
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    found: type[Exception] = DecodeError
    return found


_WIRE = "modelflow/wire"

HEALTH = Protocol(f"{_WIRE}/grpc/health.proto")
"""Messages and the service of gRPC's health protocol."""

REFLECTION = Protocol(f"{_WIRE}/grpc/reflection_v1.proto", f"{_WIRE}/grpc/reflection_v1alpha.proto")
"""Messages and the service of gRPC's reflection, in both versions."""

REFLECTION_PACKAGES = ("grpc.reflection.v1", "grpc.reflection.v1alpha")
"""The packages of these versions, the newer one first."""

OPEN_INFERENCE = Protocol(f"{_WIRE}/open_inference/inference.proto")
"""Open Inference with Triton's extensions, by full names: ``inference.ModelInferRequest``."""

TF_SERVING = Protocol(
    f"{_WIRE}/tf_serving/error_codes.proto",
    f"{_WIRE}/tf_serving/tensorflow.proto",
    f"{_WIRE}/tf_serving/serving.proto",
)
"""TensorFlow Serving's messages, by full names: ``tensorflow.serving.PredictRequest``."""
