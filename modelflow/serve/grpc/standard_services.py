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
    """The health service for probes."""

    def __init__(self, names: Iterable[str], is_ready: Callable[[], bool]) -> None:
        """Stores the services whose health clients may query.

        Args:
            names: The full names of the services. The service adds ``""``, the whole server.
            is_ready: Returns whether all models are loaded. If not, no service reports ``SERVING``.
        """
        self.name = "grpc.health.v1.Health"
        self._names = ("", *names, self.name)
        self._is_ready = is_ready
        self._is_closed = False
        self._watching: dict[Rpc, str] = {}  # with the last state that was sent
        answers = {"Check": self._check, "List": self._list, "Watch": self._watch}
        self.services: tuple[Service, ...] = (
            Service(self.name, HEALTH, answers, groups=dict.fromkeys(answers)),
        )

    @property
    def _state(self) -> str:
        return "SERVING" if self._is_ready() and not self._is_closed else "NOT_SERVING"

    def look(self) -> None:
        """Sends the state to every watching client if the state has changed."""
        state = self._state if self._watching else ""
        for rpc, told in self._watching.items():
            if told not in (state, _UNKNOWN):
                self._watching[rpc] = state
                rpc.send(_answer(state))

    def close(self) -> None:
        """Sends ``NOT_SERVING`` to every watching client, and ends the watches."""
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
    """The reflection service, which returns the descriptors of all services."""

    def __init__(self, services: Iterable[Service]) -> None:
        """Stores the other services."""
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
                refuse("no extension found: all messages are proto3", Code.NOT_FOUND)
            case _:
                refuse("message_request: got none; expected one of its fields")

    def _fill_files(self, answer: Any, find: Callable[[Protocol, str], Any], name: str) -> None:
        for protocol in self._protocols:
            found = find(protocol, name)
            if found is not None:
                files = answer.file_descriptor_response.file_descriptor_proto
                files.extend(one.serialized_pb for one in _with_dependencies(found))
                return
        refuse(f"no descriptor found for {shorten(name)}", Code.NOT_FOUND)


def _with_dependencies(file: Any) -> list[Any]:
    """Returns a file and its dependencies, each once. Clients then need no second request."""
    found = {file.name: file}
    for one in file.dependencies:
        found |= {other.name: other for other in _with_dependencies(one)}
    return list(found.values())
