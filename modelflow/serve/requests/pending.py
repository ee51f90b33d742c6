"""Small requests that wait unread and are read together when they go in."""

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
from modelflow.wire.problem import Code, Problem

if TYPE_CHECKING:
    import numpy.typing as npt

    from modelflow.graph.graph_port import Signature
    from modelflow.serve.requests.model import Model
    from modelflow.serve.requests.served_model import ServedModel


class Responder(Protocol):
    """A small request, and who waits for its answer.

    Attributes:
        body: What was sent.
        is_over: It is answered, or who asks has gone away.
        on_gone: Called when who asks has gone away; to be set.
        request_context: What is noted of it; None: nothing.
    """

    body: Any
    is_over: bool
    on_gone: Any
    request_context: RequestObserver | None

    def answer(self, reply: Any, /) -> None:
        """Answers; a second answer, or one to somebody who has gone, is dropped."""


class ReadRows(NamedTuple):
    """What was read of requests that came together.

    Attributes:
        places: Which of them ask for rows that fit the model, by place; the others are read again,
            and by themselves where none is left that fits.
        sizes: How many rows each of these has, 1 at the least.
        rows: Those of all, ``(rows, ...)``.
        details: What the answer to each depends on.
    """

    places: Sequence[int]
    sizes: Sequence[int]
    rows: "npt.NDArray[Any]"
    details: Sequence[Any]


NOT_TOGETHER = ReadRows((), (), np.empty(0), ())
"""Each request is to be read by itself."""


class RowReader(Protocol):
    """Reads small requests of a protocol, and writes their answers.

    What is not plainly rows that fit is left to `alone`, which says what is wrong with it: nothing
    is refused here.
    """

    def rows(self, requests: Sequence[Any], model: "ServedModel") -> ReadRows:
        """Reads requests to a model; which of them, is up to the reader.

        Raises:
            Problem: what is wrong with one of them; the halves are read then.
        """

    def answers(
        self,
        members: Sequence[BatchMember],
        model: "ServedModel",
        found: Mapping[str, Sequence[Buffer]],
    ) -> "Sequence[Any | Problem]":
        """Returns what each is answered: of each output a buffer for each row of theirs is here."""

    def refusal(self, problem: Problem, /) -> Any:
        """Returns what one is answered that went wrong."""

    def alone(self, request: Any, model: "Model", deadline: float | None) -> None:
        """Answers one request by itself; what is wrong with it goes to who asks."""


logger = logging.getLogger(__name__)

# Rows of a request batch, unless its only request has more. All of them enter where the graph's
# first queue has room for one: with 32 for each entry, 64 connections of eight rows cost twice as
# much (benchmarks/request_forms.py).
_MOST_ROWS = 256


class PendingRequests:
    """The requests to a model that nobody has read yet. For the server's thread.

    Those of a model whose only input is batched and of numbers (`is_of_numbers`), and through whose
    graph each row goes by itself.
    """

    def __init__(self, model: "ServedModel") -> None:
        """Takes what they are sent to."""
        self._model = model
        self._members: dict[RowReader, dict[BatchMember, None]] = {}
        self._first = self._limited = math.inf  # when the first is given up, and is looked for it

    def add(self, request: Responder, reader: RowReader, deadline: float | None) -> None:
        """Takes a request: it is read when it goes in, with the others of this turn of the loop.

        Args:
            request: Who asks.
            reader: What reads it.
            deadline: Seconds for which who asks waits; None: for ever.

        Raises:
            OverloadedError: there is no room for it.
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
        """Waits for room in the graph: those that wait too long are given up."""
        if self._first < self._limited:
            self._model.time_limit.forget(self)
            self._limited = self._first
            self._model.time_limit.add_until(self, self._first)

    def give_up(self, _: Problem) -> None:
        """Refuses those that have waited as long as they may; see `TimeLimit.add_until`."""
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
        """Refuses all: nothing takes them any more."""
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
        """Reads all that are here; returns those that go on together."""
        batches = []
        for reader, waiting in self._take().items():
            groups = [[*waiting]]
            while groups:
                members = groups.pop()
                places = self._read(reader, members)
                if places is None:  # one that is wrong costs the others a few readings
                    middle = len(members) // 2
                    groups += [members[middle:], members[:middle]]
                    continue
                together = [members[place] for place in places]
                ends = [*accumulate([member.size for member in together], initial=0)]
                start = 0
                while start < len(together):
                    stop = max(start + 1, bisect_right(ends, ends[start] + _MOST_ROWS) - 1)
                    batches.append(RequestBatch(self._model, reader, together[start:stop]))
                    start = stop
                others = sorted({*range(len(members))}.difference(places))
                if others and together:
                    groups.append([members[place] for place in others])
                    continue
                for place in others:
                    self._read_alone(reader, members[place])
        return batches

    def _read(self, reader: RowReader, members: Sequence[BatchMember]) -> Sequence[int] | None:
        """Reads them; returns the places of those that go on together; None: halves may."""
        if not members:  # all have gone
            return ()
        try:
            places, sizes, rows, details = reader.rows([m.responder for m in members], self._model)
            rows.flags.writeable = False  # units see them as they are
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
        """Notes that who asked has gone before its request went in."""
        self._members.get(reader, {}).pop(member, None)
        self._model.on_done(Code.CANCELLED)


def is_of_numbers(signature: "Signature") -> bool:
    """Tells whether a model has one input, batched and of numbers, and outputs."""
    if len(signature.inputs) != 1 or not signature.outputs:
        return False
    (port,) = signature.inputs
    return port.is_batched and port.tensor is not None and port.tensor.dtype.kind in "biuf"


def _nothing() -> None:
    """What is called where nobody works on a request yet."""
