"""Requests on their way together: into a flow, and back to those who asked."""

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


class BatchMember:
    """One request of a `RequestBatch`. Times are moments of the clock.

    Attributes:
        responder: Who waits for the answer.
        began: When it came.
        deadline: When nothing is computed for it any more; None: it said nothing.
        until: When it is given up: a moment behind its deadline, or at the server's limit.
        rows: What it brings, once it is read; nothing behind its way into the flow.
        size: How many rows that are.
        is_given_up: It has waited as long as it may, and the flow is told so.
        details: What its reader needs to know of it for the answer.
    """

    __slots__ = (
        "began",
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
        """Takes who asks, and its times."""
        self.responder = responder
        self.began = began
        self.deadline = deadline
        self.until = until
        self.rows: Sequence[Buffer] = ()
        self.size = 0
        self.is_given_up = False
        self.details: Any = None


class RequestBatch:
    """Requests that were read together, `BatchMembers` of the flow.

    None waits for another: each is answered as soon as its rows are there. For the server's thread,
    but where it says otherwise.
    """

    def __init__(
        self, model: "ServedModel", reader: "RowReader", members: Sequence[BatchMember]
    ) -> None:
        """Takes requests that the model has admitted.

        Args:
            model: What is asked.
            reader: What writes the answers.
            members: The requests.
        """
        self._model = model
        self._reader = reader
        self._members = members
        self._unanswered = len(members)
        self._is_in = False
        # What has come out and is not answered yet: requests, their buffers, and when they came.
        self._results: deque[tuple[Sequence[int], Mapping[str, Sequence[Buffer]], float]] = deque()
        model.time_limit.add_until(self, min([member.until for member in members]))

    def enter(
        self, scheduler: "Scheduler", on_room: Callable[[], None]
    ) -> "tuple[RequestBatch | None, bool]":
        """Sends those on their way for which there is room.

        Args:
            scheduler: Of the flow that they go into.
            on_room: Called once, from any thread, when the others may try again.

        Returns:
            The others, to be entered again, and whether ``on_room`` is called for them.

        Raises:
            StreamClosed: the flow takes nothing any more.
        """
        from modelflow.stream_io.request import submit_rows  # loads what a worker does without

        # Who asked may have gone meanwhile, or was given up.
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
        """Refuses all: nothing takes them any more."""
        self._model.over(partial(self._refuse, problem))

    def give_up(self, problem: Problem) -> None:
        """Refuses those that have waited as long as they may; see `TimeLimit.add_until`."""
        limit = self._model.time_limit
        late = limit.list_late(self._members)
        for member in late:
            member.is_given_up = True
            if self._is_in:
                member.responder.on_gone()  # the flow says that it is over
        if not self._is_in:
            self._end(late, problem)
        left = (member.until for member in self._members if waits(member))
        limit.add_until(self, min(left, default=math.inf))

    # -- what becomes of them: from any thread ----------------------------------------------------

    def on_result(self, requests: Sequence[int], found: Mapping[str, Sequence[Buffer]]) -> None:
        """Has the answers of these written, on the server's thread."""
        self._results.append((requests, found, SYSTEM_CLOCK.now()))
        self._model.over(self._answer)

    def on_failure(self, requests: Sequence[int], failure: Exception) -> None:
        """Has these refused, on the server's thread."""
        self._model.over(partial(self._fail, requests, problem_of(failure)))

    # -- and back on the server's thread ----------------------------------------------------------

    def _answer(self) -> None:
        """Answers all that has come out, in one piece: a call of the unit may hold few requests."""
        results, model, reader = self._results, self._model, self._reader
        if not results:  # answered with what came before
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
        except Exception as error:  # noqa: BLE001 - whatever it is, nobody is left waiting
            answers = [problem_of(error)] * len(members)
        now = SYSTEM_CLOCK.now()
        rows, seconds = 0, []
        for member, answer in zip(members, answers, strict=True):
            if isinstance(answer, Problem):
                model.figures.on_failure(answer.code, member.size, now - member.began)
                member.responder.answer(reader.refusal(answer))
            else:
                rows += member.size
                seconds.append(now - member.began)
                member.responder.answer(answer)
        model.figures.on_answers(rows, seconds, now - left)

    def _count_out(self, count: int) -> None:
        self._model.admission.on_done(count)
        self._unanswered -= count
        if not self._unanswered:
            self._model.time_limit.forget(self)

    def _refuse(self, problem: Problem) -> None:
        # Who has gone, until now, has counted itself out.
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
