"""Protobuf messages from their ``.proto`` files, without generated modules.

Every `Protocol` has a descriptor pool of its own: another package that brings modules generated
from the same files (TensorFlow, a client's library) does not collide with it, and no version of
protobuf is asked for but the one that is installed. Nothing of protobuf is imported before the
first message is made: a server over REST alone needs none.
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
    """The messages and services of one protocol; safe to use from several threads."""

    def __init__(self, *names: str, root: "Traversable | None" = None) -> None:
        """Takes the names of ``.proto`` files, which are read when a message is asked for.

        Args:
            names: Each after those that it imports, as in an ``import`` of another file.
            root: The folder that the names begin in; None: where the package `modelflow` lies.
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
            ValueError: a file is not of the form.
        """
        if self._pool is None:
            from modelflow.wire.proto_files import make_pool

            with self._making:
                if self._pool is None:
                    self._pool = make_pool({name: self._read(name) for name in self._names})
        return self._pool

    def __getitem__(self, name: str) -> Any:
        """Gives the class of a message by its full name.

        Raises:
            KeyError: there is none.
        """
        if name not in self._classes:
            found = self.pool.FindMessageTypeByName(name)
            from google.protobuf import message_factory  # type: ignore[import-untyped]

            self._classes[name] = message_factory.GetMessageClass(found)
        return self._classes[name]

    def enum(self, name: str) -> Mapping[str, int]:
        """Gives the numbers of an enumeration by its full name."""
        return {value.name: value.number for value in self.pool.FindEnumTypeByName(name).values}

    def methods(self, service: str) -> Mapping[str, Any]:
        """Gives the descriptors of a service's methods, by their names."""
        return dict(self.pool.FindServiceByName(service).methods_by_name)

    def find_file(self, name: str) -> Any | None:
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
        except _decode_error() as error:
            refuse(f"{len(data)} bytes: no {name} ({error})", cause=error)
        return message

    def parse_text(self, name: str, text: str, where: str, *, takes_unknown: bool = False) -> Any:
        """Returns the message that a text in protobuf's text form says.

        Args:
            name: The full name of its type.
            text: What was read.
            where: Where from, for messages.
            takes_unknown: Fields that it does not have are left out.

        Raises:
            Problem: it is no such message; its line and column are named.
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
        """Of a field that a message does not have, the nearest that it has."""
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
