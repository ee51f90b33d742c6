"""gRPC's health and reflection services."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from modelflow.serve.grpc.service import Rpc, Service
from modelflow.serve.requests.status import GRPC_STATUS
from modelflow.wire.problem import Code, Problem, refuse, shorten
from modelflow.wire.proto import HEALTH, REFLECTION, REFLECTION_PACKAGES, Protocol

_STATES = "grpc.health.v1.HealthCheckResponse.ServingStatus"
_UNKNOWN = "SERVICE_UNKNOWN"


class Health:
    """Tells probes whether there are answers."""

    def __init__(self, names: Iterable[str], is_ready: Callable[[], bool]) -> None:
        """Takes what may be asked for.

        Args:
            names: The full names of the services; the empty one is the server as a whole.
            is_ready: Tells whether all that was asked for is loaded: else nothing serves.
        """
        self.name = "grpc.health.v1.Health"
        self._names = ("", *names, self.name)
        self._is_ready = is_ready
        self._is_closed = False
        self._watching: dict[Rpc, str] = {}  # with what each was told last
        answers = {"Check": self._check, "List": self._list, "Watch": self._watch}
        self.services: tuple[Service, ...] = (
            Service(self.name, HEALTH, answers, groups=dict.fromkeys(answers)),
        )

    @property
    def _state(self) -> str:
        return "SERVING" if self._is_ready() and not self._is_closed else "NOT_SERVING"

    def look(self) -> None:
        """Tells those who watch if it serves now, or does no longer."""
        state = self._state if self._watching else ""
        for rpc, told in self._watching.items():
            if told not in (state, _UNKNOWN):
                self._watching[rpc] = state
                rpc.send(_answer(state))

    def close(self) -> None:
        """Tells everybody that it serves no longer."""
        self._is_closed = True
        self.look()
        for rpc in tuple(self._watching):
            rpc.end()

    def _check(self, rpc: Rpc, message: Any) -> None:
        if message.service not in self._names:
            known = ", ".join(repr(name) for name in self._names)
            refuse(
                f"there is no service {shorten(message.service)}; expected one of {known}",
                Code.NOT_FOUND,
            )
        rpc.answer(_answer(self._state))

    def _list(self, rpc: Rpc, _: Any) -> None:
        answer = HEALTH["grpc.health.v1.HealthListResponse"]()
        for name in self._names:
            answer.statuses[name].status = HEALTH.enum(_STATES)[self._state]
        rpc.answer(answer)

    def _watch(self, rpc: Rpc, message: Any) -> None:
        state = self._state if message.service in self._names else _UNKNOWN
        self._watching[rpc] = state
        on_end = rpc.on_end

        def on_call_end() -> None:
            self._watching.pop(rpc, None)
            on_end()

        rpc.on_end = on_call_end
        rpc.send(_answer(state))
        if self._is_closed:
            rpc.end()


def _answer(state: str) -> Any:
    return HEALTH["grpc.health.v1.HealthCheckResponse"](status=HEALTH.enum(_STATES)[state])


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
                self._fill_files(answer, Protocol.find_file, message.file_by_filename)
            case "file_containing_symbol":
                self._fill_files(answer, Protocol.file_with, message.file_containing_symbol)
            case "file_containing_extension" | "all_extension_numbers_of_type":
                refuse("there are no extensions: all messages are of proto3", Code.NOT_FOUND)
            case _:
                refuse("message_request: got none; expected one of its fields")

    def _fill_files(self, answer: Any, find: Callable[[Protocol, str], Any], name: str) -> None:
        for protocol in self._protocols:
            found = find(protocol, name)
            if found is not None:
                files = answer.file_descriptor_response.file_descriptor_proto
                files.extend(one.serialized_pb for one in _with_dependencies(found))
                return
        refuse(f"there is nothing described as {shorten(name)}", Code.NOT_FOUND)


def _with_dependencies(file: Any) -> list[Any]:
    """A file and all that it needs, each once; those that ask do not ask again."""
    found = {file.name: file}
    for one in file.dependencies:
        found |= {other.name: other for other in _with_dependencies(one)}
    return list(found.values())
