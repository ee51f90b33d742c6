"""The base class for reading short HTTP requests together. Each protocol has a subclass."""

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
from modelflow.serve.requests.time_limits import DEADLINE, PRIORITY, is_first, seconds_of
from modelflow.wire.problem import Problem

if TYPE_CHECKING:
    import numpy.typing as npt

    from modelflow.serve.requests.served_model import ServedModel

# The longest body that may be read together with other bodies, in bytes.
_SMALL = 16 << 10


def terms_of(http_request: HttpRequest) -> Terms:
    """Returns the deadline, the context and the class of an HTTP request.

    Raises:
        Problem: The header ``Inference-Timeout-Ms`` or ``Inference-Priority`` is invalid.
    """
    seconds, context = seconds_of(http_request), http_request.request_context
    return Terms(seconds, context, is_first=is_first(http_request))


class RestRowReader(abc.ABC):
    """A reader of the requests of a protocol; a `modelflow.serve.requests.pending.RowReader`."""

    deadline_mark: bytes | None = None
    """Bytes that occur in every body with a deadline, or None if bodies contain no parameters.

    A body with these bytes is read at once, because its deadline must be known.
    """
    priority_mark = b""
    """Bytes that occur in every body with a priority, if bodies contain parameters."""

    def __init__(self, find: Callable[..., Model], options: ServeOptions) -> None:
        """Stores the function that finds the model of a path, and the limits on bodies."""
        self._find = find
        self.options = options

    def receive(self, http_request: HttpRequest, path: Mapping[str, str]) -> None:
        """Reads a request now, or queues the request to read several requests together.

        Raises:
            Problem: The request is invalid, or the model has too many requests.
        """
        model, named = self._find(**path), http_request.head.named
        seconds = seconds_of(http_request) if DEADLINE in named else None
        body, mark, context = http_request.body, self.deadline_mark, http_request.request_context
        if (
            model.pending is None
            or model.others  # the body may name another signature
            or len(body) > _SMALL
            or b"content-encoding" in named
            or PRIORITY in named
            or (mark is not None and (mark in body or self.priority_mark in body))
            or (context is not None and context.is_single)
            or (model.pending.is_cached and model.pending.is_full(seconds))
        ):
            self.ask(http_request, model, seconds)
        else:
            model.pending.add(http_request, self, seconds)

    def alone(self, http_request: HttpRequest, model: Model, seconds: float | None) -> None:
        """Answers a request that cannot be read together with others, possibly with an error."""
        try:
            self.ask(http_request, model, seconds)
        except Exception as error:  # noqa: BLE001 - must not fail the other requests
            http_request.answer(refusal_of(error))

    def answer(self, http_request: HttpRequest, details: Any, call: Inference) -> None:
        """Answers a request that `ask` has sent, with the outputs or with an error."""
        settle(
            http_request,
            lambda: self.reply(http_request, details, call.model, call.outputs()),
        )

    def refusal(self, problem: Problem) -> Reply:
        """Returns the error reply for a failed request."""
        return refusal(problem)

    def answers(
        self,
        members: Sequence[BatchMember],
        model: "ServedModel",
        found: Mapping[str, Sequence[Buffer]],
    ) -> Sequence[Reply | Problem]:
        """Returns the reply to each request; see `RowReader.answers`."""
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
        """Returns the replies to all requests, or None if `reply` must write each reply.

        Args:
            members: The requests.
            sizes: The number of rows of each request.
            model: The model.
            columns: The values of each output, ``(rows, ...)``. None if an output's values are not
                numbers of one shape.
        """

    @abc.abstractmethod
    def ask(self, http_request: HttpRequest, model: Model, seconds: float | None) -> None:
        """Reads one request and sends its inputs to the model.

        Raises:
            Problem: The request is invalid, or the model has too many requests.
        """

    @abc.abstractmethod
    def rows(self, requests: Sequence[HttpRequest], model: "ServedModel") -> ReadRows:
        """Reads requests together; see `RowReader.rows`."""

    @abc.abstractmethod
    def reply(
        self, http_request: HttpRequest, details: Any, model: Model, values: Mapping[str, Any]
    ) -> Reply:
        """Returns the reply to a request, from the values of each output.

        Raises:
            Problem: The protocol cannot represent the values.
        """
