"""Request batches: small requests that enter a flow together and are answered separately."""

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from modelflow.buffer import Buffer
from modelflow.runtime.clock import SYSTEM_CLOCK
from modelflow.serve.requests.status import problem_of
from modelflow.serve.requests.time_limits import waits
from modelflow.wire.problem import Problem

if TYPE_CHECKING:
    from modelflow.runtime.scheduler import Scheduler
    from modelflow.serve.requests.pending import Responder, RowReader
    from modelflow.serve.requests.served_model import ServedModel
    from modelflow.serve.requests.state.response_cache import ResponseCache


class BatchMember:
    """A request of a `RequestBatch`. Times are in seconds of the clock.

    Attributes:
        responder: The connection that waits for the answer.
        began: The time at which the request arrived.
        deadline: The time after which no unit begins work on the request. None if it has none.
        until: The time at which the request is given up. This is shortly after its deadline, or at
            the server's limit.
        rows: The decoded rows. Empty before decoding, and again once the rows are submitted.
        size: The number of rows.
        is_given_up: The time limit has passed, and the flow is asked to cancel the request.
        details: The facts that the reader needs to write the answer.
        cache_key: The key under which the answer is stored in the model's cache, or None.
    """

    __slots__ = (
        "began",
        "cache_key",
        "deadline",
        "details",
        "is_given_up",
        "responder",
        "rows",
        "size",
        "until",
    )

    def __init__(
        self, responder: "Responder", began: float, deadline: float | None, until: float
    ) -> None:
        """Stores the connection and the times of the request."""
        self.responder = responder
        self.began = began
        self.deadline = deadline
        self.until = until
        self.rows: Sequence[Buffer] = ()
        self.size = 0
        self.is_given_up = False
        self.details: Any = None
        self.cache_key: bytes | None = None


class RequestBatch:
    """Requests that were decoded together; the `BatchMembers` of a session.

    A request is answered as soon as all its own rows have results, before the rest of the batch.
    Methods are for the server's thread, except where noted.

    Example: a model with ``batch_size=2`` and one worker, in a server with a limit of 30 s:

        0 ms    Four requests arrive in one turn of the event loop: A (1 row), B (2 rows), C (1 row,
                deadline 50 ms) and D (1 row). `PendingRequests.add` admits each, undecoded.
        1 ms    The turn ends. The reader decodes all four. `enter` submits a session with five
                rows. Row 0 belongs to A, rows 1 and 2 to B, row 3 to C and row 4 to D.
                Call 1 gets rows 0 and 1.
        5 ms    D's client disconnects. `on_failure([3])` counts D as cancelled. No call gets row 4.
        20 ms   Call 1 returns. `on_result([0])` answers A. B still waits for row 2.
                Call 2 gets rows 2 and 3.
        150 ms  100 ms after its deadline, C is given up. `on_failure([2])` answers C with 504.
        220 ms  Call 2 returns. `on_result([1])` answers B. The result of row 3 is dropped.
                If call 2 raises instead, the unit is called again for each of its rows. B gets an
                error only if row 2 fails again.
    """

    def __init__(
        self, model: "ServedModel", reader: "RowReader", members: Sequence[BatchMember]
    ) -> None:
        """Stores admitted requests, and starts their time limit.

        Args:
            model: The model of the requests.
            reader: The writer of the answers.
            members: The requests.
        """
        self._model = model
        self._reader = reader
        self._members = members
        self._unanswered = len(members)
        self._is_in = False
        # Results that are not answered yet: request numbers, buffers by output, time of arrival.
        self._results: deque[tuple[Sequence[int], Mapping[str, Sequence[Buffer]], float]] = deque()
        model.time_limit.add_until(self, min([member.until for member in members]))

    def enter(
        self, scheduler: "Scheduler", on_room: Callable[[], None]
    ) -> "tuple[RequestBatch | None, bool]":
        """Submits the requests that the flow has room for.

        Args:
            scheduler: The scheduler of the flow.
            on_room: Called once, from any thread, when the flow may have room for the others.

        Returns:
            The other requests, to be entered again, and whether ``on_room`` will be called.

        Raises:
            StreamClosed: the flow has ended.
        """
        from modelflow.stream_io.request import submit_rows  # a worker process saves this import

        # A client may have disconnected in the meantime, or its request was given up.
        members = [member for member in self._members if not member.responder.is_over]
        if not members:
            self._model.time_limit.forget(self)
            return None, False
        rows: list[Buffer] = []
        sizes, deadlines = [], []
        for member in members:
            rows += member.rows
            sizes.append(member.size)
            deadlines.append(member.deadline)
        submitted = submit_rows(
            scheduler,
            rows,
            self,
            on_room,
            sizes=sizes,
            deadlines=deadlines if any(deadlines) else None,
            is_together=True,
        )
        count = submitted.count
        if not count:
            self._members, self._unanswered = members, len(members)
            return self, True
        self._is_in = True
        self._members, self._unanswered = members[:count], count
        for number, member in enumerate(self._members):
            member.rows = ()
            member.responder.on_gone = partial(submitted.cancel, number)
        if count == len(members):
            return None, False
        return RequestBatch(self._model, self._reader, members[count:]), True

    def refuse(self, problem: Problem) -> None:
        """Refuses all requests, because the flow has ended."""
        self._model.over(partial(self._refuse, problem))

    def give_up(self, problem: Problem) -> None:
        """Refuses the requests whose time limit has passed; see `TimeLimit.add_until`."""
        limit = self._model.time_limit
        late = limit.list_late(self._members)
        for member in late:
            member.is_given_up = True
            if self._is_in:
                member.responder.on_gone()  # the flow answers with `on_failure`
        if not self._is_in:
            self._end(late, problem)
        left = (member.until for member in self._members if waits(member))
        limit.add_until(self, min(left, default=math.inf))

    # -- called by the flow, from any thread ------------------------------------------------------

    def on_result(self, requests: Sequence[int], found: Mapping[str, Sequence[Buffer]]) -> None:
        """Schedules the answers to these requests on the server's thread."""
        self._results.append((requests, found, SYSTEM_CLOCK.now()))
        self._model.over(self._answer)

    def on_failure(self, requests: Sequence[int], failure: Exception) -> None:
        """Schedules the refusal of these requests on the server's thread."""
        self._model.over(partial(self._fail, requests, problem_of(failure)))

    # -- on the server's thread -------------------------------------------------------------------

    def _answer(self) -> None:
        """Answers all results at once, because a single call of a unit may hold few requests."""
        results, model, reader = self._results, self._model, self._reader
        if not results:  # an earlier `_answer` took them
            return
        requests, found, left = results.popleft()
        while results:
            more, buffers, _ = results.popleft()
            requests = [*requests, *more]
            found = {name: [*before, *buffers[name]] for name, before in found.items()}
        members = [self._members[number] for number in requests]
        self._count_out(len(members))
        try:
            answers = reader.answers(members, model, found)
        except Exception as error:  # noqa: BLE001 - every client gets an answer
            answers = [problem_of(error)] * len(members)
        if model.cache is not None:
            self._store(model.cache, members, found)
        now = SYSTEM_CLOCK.now()
        rows, seconds, traces = 0, [], []
        for member, answer in zip(members, answers, strict=True):
            if isinstance(answer, Problem):
                model.figures.on_failure(answer.code, member.size, now - member.began)
                member.responder.answer(reader.refusal(answer))
            else:
                rows += member.size
                seconds.append(now - member.began)
                if member.responder.request_context is not None:
                    traces.append((member.responder.request_context.sampled_trace, seconds[-1]))
                member.responder.answer(answer)
        model.figures.on_answers(rows, seconds, now - left)
        model.figures.on_traces(traces)

    def _store(
        self,
        cache: "ResponseCache",
        members: Sequence[BatchMember],
        found: Mapping[str, Sequence[Buffer]],
    ) -> None:
        """Stores the answers without an error that the cache has missed."""
        end = 0
        for member in members:
            start, end = end, end + member.size
            if member.cache_key is not None:
                own = {name: buffers[start:end] for name, buffers in found.items()}
                if all(one.error is None for buffers in own.values() for one in buffers):
                    cache.store(member.cache_key, own)

    def _count_out(self, count: int) -> None:
        self._model.admission.on_done(count)
        self._unanswered -= count
        if not self._unanswered:
            self._model.time_limit.forget(self)

    def _refuse(self, problem: Problem) -> None:
        # A request whose client has disconnected was counted out at that moment.
        self._end([member for member in self._members if not member.responder.is_over], problem)

    def _fail(self, requests: Sequence[int], problem: Problem) -> None:
        self._end([self._members[number] for number in requests], problem)

    def _end(self, members: Sequence[BatchMember], problem: Problem) -> None:
        now, model = SYSTEM_CLOCK.now(), self._model
        self._count_out(len(members))
        for member in members:
            own = model.time_limit.problem_of(member) if member.is_given_up else problem
            model.figures.on_failure(own.code, member.size, now - member.began)
            member.responder.answer(self._reader.refusal(own))
