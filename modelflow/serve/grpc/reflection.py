"""gRPC's reflection: what there is to call, for ``grpcurl`` and its like."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from modelflow.serve.grpc.rpc import Rpc
from modelflow.serve.grpc.service import Service
from modelflow.serve.status import GRPC_STATUS
from modelflow.wire.problem import Code, Problem, shown
from modelflow.wire.proto import Protocol
from modelflow.wire.reflection_messages import REFLECTION, REFLECTION_PACKAGES

__all__ = ["Reflection"]


class Reflection:
    """Gives the descriptors of all services, its own among them."""

    def __init__(self, services: Iterable[Service]) -> None:
        """Takes the other services."""
        self.services: tuple[Service, ...] = tuple(
            Service(
                f"{package}.ServerReflection",
                REFLECTION,
                {"ServerReflectionInfo": partial(self._answer, package)},
            )
            for package in REFLECTION_PACKAGES
        )
        known = (*services, *self.services)
        self._names = [service.name for service in known]
        self._protocols = list({id(one.protocol): one.protocol for one in known}.values())

    def _answer(self, package: str, rpc: Rpc, message: Any) -> None:
        answer = REFLECTION[f"{package}.ServerReflectionResponse"](
            valid_host=message.host, original_request=message
        )
        try:
            self._fill(answer, message)
        except Problem as problem:
            answer.error_response.error_code = GRPC_STATUS[problem.code]
            answer.error_response.error_message = str(problem)
        rpc.answer(answer)

    def _fill(self, answer: Any, message: Any) -> None:
        match message.WhichOneof("message_request"):
            case "list_services":
                for name in self._names:
                    answer.list_services_response.service.add(name=name)
            case "file_by_filename":
                self._fill_files(answer, Protocol.file_named, message.file_by_filename)
            case "file_containing_symbol":
                self._fill_files(answer, Protocol.file_with, message.file_containing_symbol)
            case "file_containing_extension" | "all_extension_numbers_of_type":
                text = "there are no extensions: all messages are of proto3"
                raise Problem(text, Code.NOT_FOUND)
            case _:
                text = "message_request: got none; expected one of its fields"
                raise Problem(text)

    def _fill_files(self, answer: Any, find: Callable[[Protocol, str], Any], name: str) -> None:
        for protocol in self._protocols:
            found = find(protocol, name)
            if found is not None:
                files = answer.file_descriptor_response.file_descriptor_proto
                files.extend(one.serialized_pb for one in _with_dependencies(found))
                return
        text = f"there is nothing described as {shown(name)}"
        raise Problem(text, Code.NOT_FOUND)


def _with_dependencies(file: Any) -> list[Any]:
    """A file and all that it needs, each once; those that ask do not ask again."""
    found = {file.name: file}
    for one in file.dependencies:
        found |= {other.name: other for other in _with_dependencies(one)}
    return list(found.values())
