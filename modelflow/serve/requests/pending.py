"""Small requests that wait undecoded, and are decoded together when they are submitted."""

import logging
import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from modelflow.buffer import Buffer
from modelflow.http.request import RequestObserver
from modelflow.runtime.clock import SYSTEM_CLOCK
from modelflow.serve.requests.request_batch import BatchMember, RequestBatch
from modelflow.serve.requests.state.input_hash import hash_inputs
from modelflow.wire.problem import Code, Problem

if TYPE_CHECKING:
    import numpy.typing as npt

    from modelflow.graph.graph_port import Signature
    from modelflow.serve.requests.model import Model
    from modelflow.serve.requests.served_model import ServedModel
    from modelflow.serve.requests.state.response_cache import ResponseCache


class Responder(Protocol):
    """A small request and the connection that waits for the answer.

    Attributes:
        body: The body of the request.
        is_over: The request is answered, or the client has disconnected.
        on_gone: Called when the client has disconnected. The holder of the request sets it.
        request_context: The observer of the request, or None.
    """

    body: Any
    is_over: bool
    on_gone: Any
    request_context: RequestObserver | None

    def answer(self, reply: Any, /) -> None:
        """Sends the answer. Drops a second answer, or an answer to a disconnected client."""


class ReadRows(NamedTuple):
    """The rows of requests that were decoded together.

    Attributes:
        places: The positions of the requests whose rows fit the model. The other requests are
            decoded again together, or one by one if ``places`` is empty.
        sizes: The number of rows of each of these requests, at least 1.
        rows: The rows of all these requests, ``(rows, ...)``.
        details: The facts about each of these requests that its answer depends on.
    """

    places: Sequence[int]
    sizes: Sequence[int]
    rows: "npt.NDArray[Any]"
    details: Sequence[Any]


NOT_TOGETHER = ReadRows((), (), np.empty(0), ())
"""The result of a reader that wants each request decoded alone."""


class RowReader(Protocol):
    """A reader of small requests in a protocol, which also writes their answers.

    `rows` refuses no request. It leaves every request that is not plainly rows of the right shape
    to `alone`, which reports the error.
    """

    def rows(self, requests: Sequence[Any], model: "ServedModel") -> ReadRows:
        """Decodes requests to a model. The reader chooses which requests to decode.

        Raises:
            Problem: one of the requests is invalid. The caller decodes each half of the requests
                then.
        """

    def answers(
        self,
        members: Sequence[BatchMember],
        model: "ServedModel",
        found: Mapping[str, Sequence[Buffer]],
    ) -> "Sequence[Any | Problem]":
        """Returns the answer to each member, or its error.

        Args:
            members: The requests.
            model: The model that has computed the results.
            found: For each output, a buffer for each row of the members, in order.
        """

    def refusal(self, problem: Problem, /) -> Any:
        """Returns the answer to a request that failed."""

    def alone(self, request: Any, model: "Model", deadline: float | None) -> None:
        """Answers a single request. The client receives any error."""


logger = logging.getLogger(__name__)

# The most rows of a request batch, unless its only request has more. All rows enter if the graph's
# first queue has room for one. With a limit of 32 rows, 64 connections that send eight rows each
# cost twice as much (benchmarks/real_requests.py).
_MOST_ROWS = 256


class PendingRequests:
    """The requests to a model that are not decoded yet. For the server's thread.

    The model has one input, batched and numeric (`is_of_numbers`). Its graph treats each row
    independently.
    """

    def __init__(self, model: "ServedModel") -> None:
        """Stores the model of the requests."""
        self._model = model
        self.is_cached = model.cache is not None
        """The model has a cache, whose answers need no room in the model."""
        self._members: dict[RowReader, dict[BatchMember, None]] = {}
        self._first = self._limited = math.inf  # the earliest `until`; the time of the timer

    def is_full(self, deadline: float | None) -> bool:
        """Tells whether `add` would refuse a request."""
        return not self._model.admission.takes(deadline)

    def add(self, request: Responder, reader: RowReader, deadline: float | None) -> None:
        """Admits a request, to be decoded with the others of this turn of the event loop.

        Args:
            request: The request.
            reader: The reader of the request's protocol.
            deadline: Seconds for which the client waits. None if the client sets no limit.

        Raises:
            OverloadedError: the model has no room for the request.
        """
        model = self._model
        if request.request_context is not None:
            request.request_context.enter(model.name, model.version)
        model.admission.admit(deadline)
        began, limit = SYSTEM_CLOCK.now(), model.time_limit
        if deadline is None:
            member = BatchMember(request, began, None, began + limit.seconds)
        else:
            until = limit.end_of(began, deadline)
            member = BatchMember(request, began, began + deadline, until)
        request.on_gone = partial(self._leave, reader, member)
        if not self._members:
            model.submit_queue.add(self)
        self._members.setdefault(reader, {})[member] = None
        if member.until < self._first:
            self._first = member.until
            if model.submit_queue.is_blocked:
                self.wait()

    def wait(self) -> None:
        """Starts the timer that gives up requests while the graph has no room."""
        if self._first < self._limited:
            self._model.time_limit.forget(self)
            self._limited = self._first
            self._model.time_limit.add_until(self, self._first)

    def give_up(self, _: Problem) -> None:
        """Refuses the requests whose time limit has passed; see `TimeLimit.add_until`."""
        limit = self._model.time_limit
        for reader, members in self._members.items():
            for member in limit.list_late(members):
                del members[member]
                self._end(reader, member, limit.problem_of(member))
        waiting = chain.from_iterable(self._members.values())
        self._first = min((member.until for member in waiting), default=math.inf)
        self._limited = math.inf
        self.wait()

    def refuse(self, problem: Problem) -> None:
        """Refuses all requests, because the flow has ended."""
        for reader, members in self._take().items():
            for member in members:
                self._end(reader, member, problem)

    def _take(self) -> dict[RowReader, dict[BatchMember, None]]:
        if self._limited < math.inf:
            self._model.time_limit.forget(self)
        self._first = self._limited = math.inf
        taken, self._members = self._members, {}
        return taken

    def read(self) -> list[RequestBatch]:
        """Decodes all pending requests, and returns the request batches."""
        batches = []
        for reader, waiting in self._take().items():
            groups = [[*waiting]]
            while groups:
                members = groups.pop()
                places = self._read(reader, members)
                if places is None:  # Halving finds an invalid request in a few decodings.
                    middle = len(members) // 2
                    groups += [members[middle:], members[:middle]]
                    continue
                together = decoded = [members[place] for place in places]
                if self._model.cache is not None:
                    together = self._answer_stored(self._model.cache, reader, decoded)
                ends = [*accumulate([member.size for member in together], initial=0)]
                start = 0
                while start < len(together):
                    stop = max(start + 1, bisect_right(ends, ends[start] + _MOST_ROWS) - 1)
                    batches.append(RequestBatch(self._model, reader, together[start:stop]))
                    start = stop
                others = sorted({*range(len(members))}.difference(places))
                if others and decoded:
                    groups.append([members[place] for place in others])
                    continue
                for place in others:
                    self._read_alone(reader, members[place])
        return batches

    def _answer_stored(
        self, cache: "ResponseCache", reader: RowReader, members: Sequence[BatchMember]
    ) -> list[BatchMember]:
        """Answers the decoded requests whose answers are stored, and returns the others."""
        model, hits, others = self._model, [], []
        (port,) = model.signature.inputs
        for member in members:
            rows = [buffer.data for buffer in member.rows]
            member.cache_key = hash_inputs(model.signature_name, {port.name: rows}, None)
            found = cache.find(member.cache_key)
            model.figures.on_lookup(is_hit=found is not None)
            if found is None:
                others.append(member)
            else:
                member.responder.on_gone = _nothing
                member.cache_key = None
                hits.append((member, found))
        if hits:
            stored = {
                name: [Buffer(data) for _, found in hits for data in found[name]]
                for name in model.outputs
            }
            batch = RequestBatch(model, reader, [member for member, _ in hits])
            batch.on_result(range(len(hits)), stored)
        return others

    def _read(self, reader: RowReader, members: Sequence[BatchMember]) -> Sequence[int] | None:
        """Decodes requests, and returns the positions of the requests to submit together.

        Returns None if one of several requests is invalid; each half may still be decoded.
        """
        if not members:  # all clients have disconnected
            return ()
        try:
            places, sizes, rows, details = reader.rows([m.responder for m in members], self._model)
            rows.flags.writeable = False  # Units see the rows without a copy.
            buffers, end = [*map(Buffer, rows)], 0
            for place, size, known in zip(places, sizes, details, strict=True):
                start, end = end, end + size
                member = members[place]
                member.size, member.details, member.rows = size, known, buffers[start:end]
        except Problem:
            return None if len(members) > 1 else ()
        except Exception:
            logger.exception("requests could not be read together; each is read by itself")
            return ()
        return places

    def _read_alone(self, reader: RowReader, member: BatchMember) -> None:
        limit = self._model.time_limit
        left = (member.deadline or member.until) - SYSTEM_CLOCK.now()
        if left <= 0:
            self._end(reader, member, limit.problem_of(member))
            return
        member.responder.on_gone = _nothing
        self._model.on_done()
        is_bounded = member.deadline is not None or not limit.is_whole(left)
        reader.alone(member.responder, self._model, left if is_bounded else None)

    def _end(self, reader: RowReader, member: BatchMember, problem: Problem) -> None:
        self._model.on_done(problem.code)
        member.responder.answer(reader.refusal(problem))

    def _leave(self, reader: RowReader, member: BatchMember) -> None:
        """Removes a request whose client has disconnected before the request was decoded."""
        self._members.get(reader, {}).pop(member, None)
        self._model.on_done(Code.CANCELLED)


def is_of_numbers(signature: "Signature") -> bool:
    """Tells whether a model has a single input, batched and numeric, and at least one output."""
    if len(signature.inputs) != 1 or not signature.outputs:
        return False
    (port,) = signature.inputs
    return port.is_batched and port.tensor is not None and port.tensor.dtype.kind in "biuf"


def _nothing() -> None:
    """Does nothing. The `on_gone` of a request that `RowReader.alone` has not submitted yet."""
