"""The worker's side of a link: sends requests, and receives answers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy.typing as npt

from modelflow.ipc.frame import Value
from modelflow.ipc.link import Link
from modelflow.serve.processes.rpc.remote_model import RemoteCall
from modelflow.serve.requests.admission import OverloadedError
from modelflow.wire.problem import Code, Problem

SentTerms = tuple[Any, ...]
"""The deadline, the session's context, whether the request is a stream, and further terms.

The further terms are None, or whether the request is of the first class, its sequence (None or a
list), and its parameters.
"""


class RpcClient:
    """A client that sends requests to the process with the models. For the server's thread."""

    def __init__(self, explain_loss: Callable[[], Problem] | None = None) -> None:
        """Creates a client without a link. `connect` adds the link.

        Args:
            explain_loss: Returns the error of requests whose link is lost. None for the error of
                the process with the models.
        """
        self._explain_loss = explain_loss or _process_gone
        self._link: Link | None = None
        self._calls: dict[int, RemoteCall] = {}
        self._count = 0

    def connect(self, link: Link) -> None:
        """Sets the link, or replaces an ended link."""
        self._link = link

    def infer(
        self, call: RemoteCall, key: Any, arrays: Mapping[str, npt.NDArray[Any]], terms: SentTerms
    ) -> None:
        """Sends a request of arrays.

        Raises:
            Problem: the process with the models has ended.
        """
        link = self._get_link()
        values = {name: link.value(array) for name, array in arrays.items()}
        link.say("infer", self._number(call), key, values, *terms)

    def send(
        self, call: RemoteCall, key: Any, items: Mapping[str, Sequence[Any]], terms: SentTerms
    ) -> None:
        """Sends a request of items; see `infer`."""
        link = self._get_link()
        values = {name: [*map(link.value, found)] for name, found in items.items()}
        link.say("send", self._number(call), key, values, *terms)

    def cancel(self, call: RemoteCall) -> None:
        """Cancels a request. The other process still reports its end."""
        if call.number in self._calls and self._link is not None:
            self._link.say("cancel", call.number)

    def ask_more(self, call: RemoteCall) -> None:
        """Requests the next part of a stream."""
        if self._link is not None:
            self._link.say("more", call.number)

    def hear(self, message: list[Any], read: Callable[[Value], Any]) -> None:
        """Handles a message about a request."""
        kind, number, *rest = message
        call = self._calls[number] if kind in ("taken", "part") else self._calls.pop(number)
        match kind:
            case "answer":
                call.on_answer({name: _read(value, read) for name, value in rest[0].items()})
            case "problem":
                call.on_failure(problem_of(rest))
            case "taken":
                call.on_admitted()
            case "part":
                name, value, is_last = rest
                call.came(name, read(value), is_last)
            case "end":
                call.on_end()

    def lose(self) -> None:
        """Fails all requests, because the process with the models has ended."""
        self._link = None
        calls, self._calls = self._calls, {}
        for call in calls.values():
            call.on_failure(self._explain_loss())

    def _get_link(self) -> Link:
        if self._link is None:
            raise self._explain_loss()
        return self._link

    def _number(self, call: RemoteCall) -> int:
        self._count += 1
        call.number = self._count
        self._calls[self._count] = call
        return self._count


def words_of(problem: Problem) -> list[Any]:
    """Returns the message form of a problem."""
    text = str(problem).encode(errors="replace").decode()
    if isinstance(problem, OverloadedError):
        return [text, str(problem.code), problem.reason, problem.retry_after]
    return [text, str(problem.code)]


def problem_of(words: Sequence[Any]) -> Problem:
    """Returns the problem of a message."""
    text, code, *refusal = words
    return OverloadedError(text, *refusal) if refusal else Problem(text, Code(code))


def _read(value: Any, read: Callable[[Value], Any]) -> Any:
    """Returns an output as an array, or as a list with the data of each buffer."""
    return [read(one) for one in value[1:]] if value[0] == "each" else read(value)


def _process_gone() -> Problem:
    message = "the process that runs the models has ended, and another takes its place; try again"
    return Problem(message, Code.UNAVAILABLE)
