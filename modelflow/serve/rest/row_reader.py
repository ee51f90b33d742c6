"""How short requests over HTTP are read together; what each protocol says of them is its own."""

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from modelflow.buffer import Buffer
from modelflow.http.reply import Reply
from modelflow.http.request import HttpRequest
from modelflow.serve.access.error_reply import refusal, refusal_of, settle
from modelflow.serve.options import ServeOptions
from modelflow.serve.requests.model import Inference, Model, Terms
from modelflow.serve.requests.pending import ReadRows
from modelflow.serve.requests.request_batch import BatchMember
from modelflow.serve.requests.rows import columns_of, split_values
from modelflow.serve.requests.status import attempt
from modelflow.serve.requests.time_limits import DEADLINE, seconds_of
from modelflow.wire.problem import Problem

if TYPE_CHECKING:
    import numpy.typing as npt

    from modelflow.serve.requests.served_model import ServedModel

# The longest body that may be read with others.
_SMALL = 16 << 10


def terms_of(http_request: HttpRequest) -> Terms:
    """Returns what a request over HTTP says beside its body.

    Raises:
        Problem: its header ``Inference-Timeout-Ms`` is no time.
    """
    return Terms(seconds_of(http_request), http_request.request_context)


class RestRowReader(abc.ABC):
    """Reads requests of one protocol; a `modelflow.serve.requests.pending.RowReader`."""

    deadline_mark: bytes | None = None
    """What a body has that may say a deadline: it does not wait unread; None: none does."""

    def __init__(self, find: Callable[..., Model], options: ServeOptions) -> None:
        """Takes what finds the model that a path names, and what a body may hold."""
        self._find = find
        self.options = options

    def receive(self, http_request: HttpRequest, path: Mapping[str, str]) -> None:
        """Has a request answered, now or later.

        Raises:
            Problem: it is not taken, or cannot be understood.
        """
        model, named = self._find(**path), http_request.head.named
        seconds = seconds_of(http_request) if DEADLINE in named else None
        body, mark, context = http_request.body, self.deadline_mark, http_request.request_context
        if (
            model.pending is None
            or model.others  # the body may ask for one of these
            or len(body) > _SMALL
            or b"content-encoding" in named
            or (mark is not None and mark in body)
            or (context is not None and context.watcher() is not None)
        ):
            self.ask(http_request, model, seconds)
        else:
            model.pending.add(http_request, self, seconds)

    def alone(self, http_request: HttpRequest, model: Model, seconds: float | None) -> None:
        """Has a request answered that cannot be read with others, and be it with a problem."""
        try:
            self.ask(http_request, model, seconds)
        except Exception as error:  # noqa: BLE001 - the others are answered all the same
            http_request.answer(refusal_of(error))

    def answer(self, http_request: HttpRequest, details: Any, call: Inference) -> None:
        """Answers a request that was sent by itself, or says why there is no answer."""
        settle(
            http_request,
            lambda: self.reply(http_request, details, call.model, call.outputs()),
        )

    def refusal(self, problem: Problem) -> Reply:
        """Returns the answer to a request that failed."""
        return refusal(problem)

    def answers(
        self,
        members: Sequence[BatchMember],
        model: "ServedModel",
        found: Mapping[str, Sequence[Buffer]],
    ) -> Sequence[Reply | Problem]:
        """Returns the answer to each request; see `RowReader.answers`."""
        sizes = [member.size for member in members]
        columns = columns_of(model.outputs, found)
        together = self.replies(members, sizes, model, columns)
        if together is not None:
            return together
        return [
            values
            if isinstance(values, Problem)
            else attempt(self.reply, member.responder, member.details, model, values)
            for member, values in zip(
                members, split_values(model.outputs, sizes, found, columns), strict=True
            )
        ]

    @abc.abstractmethod
    def replies(
        self,
        members: Sequence[BatchMember],
        sizes: Sequence[int],
        model: "ServedModel",
        columns: Mapping[str, "npt.NDArray[Any] | None"],
    ) -> "Sequence[Reply] | None":
        """Returns the answers to requests, written at once; None: each is written by itself.

        Args:
            members: The requests.
            sizes: How many rows each has.
            model: What has answered.
            columns: Of each output what came out, ``(rows, ...)``; None: not numbers of one shape.
        """

    @abc.abstractmethod
    def ask(self, http_request: HttpRequest, model: Model, seconds: float | None) -> None:
        """Reads one request and sends it.

        Raises:
            Problem: it is not taken, or cannot be understood.
        """

    @abc.abstractmethod
    def rows(self, requests: Sequence[HttpRequest], model: "ServedModel") -> ReadRows:
        """Reads requests together; see `RowReader.rows`."""

    @abc.abstractmethod
    def reply(
        self, http_request: HttpRequest, details: Any, model: Model, values: Mapping[str, Any]
    ) -> Reply:
        """Returns the answer to a request, of what came out of each output.

        Raises:
            Problem: the protocol has no form for it.
        """
