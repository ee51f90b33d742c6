"""gRPC's health protocol: whether the server, and each of its services, serves."""

from collections.abc import Callable, Iterable
from typing import Any

from modelflow.serve.grpc.rpc import Rpc
from modelflow.serve.grpc.service import Service
from modelflow.wire.health_messages import HEALTH
from modelflow.wire.problem import Code, Problem, shown

__all__ = ["Health"]

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
            text = f"there is no service {shown(message.service)}; expected one of {known}"
            raise Problem(text, Code.NOT_FOUND)
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

        def ended() -> None:
            self._watching.pop(rpc, None)
            on_end()

        rpc.on_end = ended
        rpc.send(_answer(state))
        if self._is_closed:
            rpc.end()


def _answer(state: str) -> Any:
    return HEALTH["grpc.health.v1.HealthCheckResponse"](status=HEALTH.enum(_STATES)[state])
