"""gRPC's health protocol: whether the server, and each of its services, serves."""

from collections.abc import Iterable
from functools import partial
from typing import Any

from modelflow.serve.grpc.rpc import Rpc
from modelflow.serve.grpc.service import Service
from modelflow.wire.health_messages import HEALTH
from modelflow.wire.problem import Code, Problem, shown

__all__ = ["Health"]

_STATES = HEALTH.enum("grpc.health.v1.HealthCheckResponse.ServingStatus")


class Health:
    """Tells probes whether there are answers."""

    def __init__(self, names: Iterable[str]) -> None:
        """Takes the full names of the services; the empty one is the server as a whole."""
        self.name = "grpc.health.v1.Health"
        self._names = ("", *names, self.name)
        self._state = "SERVING"
        self._watching: set[Rpc] = set()
        answers = {"Check": self._check, "List": self._list, "Watch": self._watch}
        self.services: tuple[Service, ...] = (
            Service(self.name, HEALTH, answers, groups=dict.fromkeys(answers)),
        )

    def close(self) -> None:
        """Tells everybody that it serves no longer."""
        self._state = "NOT_SERVING"
        for rpc in tuple(self._watching):
            rpc.answer(_answer(self._state))

    def _check(self, rpc: Rpc, message: Any) -> None:
        if message.service not in self._names:
            known = ", ".join(repr(name) for name in self._names)
            text = f"there is no service {shown(message.service)}; expected one of {known}"
            raise Problem(text, Code.NOT_FOUND)
        rpc.answer(_answer(self._state))

    def _list(self, rpc: Rpc, _: Any) -> None:
        answer = HEALTH["grpc.health.v1.HealthListResponse"]()
        for name in self._names:
            answer.statuses[name].status = _STATES[self._state]
        rpc.answer(answer)

    def _watch(self, rpc: Rpc, message: Any) -> None:
        self._watching.add(rpc)
        forget, on_end = partial(self._watching.discard, rpc), rpc.on_end

        def ended() -> None:
            forget()
            on_end()

        rpc.on_end = ended
        is_known = message.service in self._names
        rpc.send(_answer(self._state if is_known else "SERVICE_UNKNOWN"))
        if self._state != "SERVING":
            rpc.end()


def _answer(state: str) -> Any:
    return HEALTH["grpc.health.v1.HealthCheckResponse"](status=_STATES[state])
