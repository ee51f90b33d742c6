"""Requests of one row each on their way together: into a flow, and back to those who asked."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from modelflow.buffer import Buffer
from modelflow.errors import Cancelled
from modelflow.runtime.clock import SYSTEM_CLOCK
from modelflow.serve.requests.status import internal_problem, problem_of
from modelflow.wire.problem import Problem

if TYPE_CHECKING:
    from modelflow.flow import Flow
    from modelflow.serve.requests.pending import Responder, RowReader
    from modelflow.serve.requests.served_model import ServedModel


class RequestBatch:
    """Requests of one row each, a `BatchMembers` of the flow.

    None waits for another: each is answered as soon as its row is there. For the server's thread,
    but where it says otherwise.
    """

    def __init__(
        self,
        model: "ServedModel",
        reader: "RowReader",
        waiting: "Sequence[tuple[Responder, float]]",
        rows: Sequence[Buffer],
    ) -> None:
        """Takes requests that the model has admitted.

        Args:
            model: What is asked.
            reader: What writes the answers.
            waiting: The requests, and when each came.
            rows: What each brings.
        """
        self._model = model
        self._reader = reader
        self._waiting = waiting
        self._rows = rows
        self._unanswered = len(waiting)
        self._is_in = self._is_late = False
        model.time_limit.add_oldest(self, waiting)

    def enter(self, flow: "Flow", on_room: Callable[[], None]) -> "RequestBatch | None":
        """Sends them on their way; returns those that found no room, which go on by themselves.

        Args:
            flow: Where they go in.
            on_room: Called once, from any thread, when those may try again.

        Raises:
            StreamClosed: the flow takes nothing any more.
        """
        here = [place for place, (one, _) in enumerate(self._waiting) if not one.is_over]
        if len(here) < len(self._waiting):  # who asked has gone meanwhile, or was given up
            self._waiting = [self._waiting[place] for place in here]
            self._rows = [self._rows[place] for place in here]
            self._unanswered = len(here)
        if not here:
            self._model.time_limit.forget(self)
            return None
        self._is_in = True
        submitted = flow.submit_rows(self._rows, self, on_room)
        waiting, rows, count = self._waiting, self._rows, submitted.count
        for position in range(count):
            waiting[position][0].on_gone = partial(submitted.cancel, position)
        self._rows = ()
        if count == len(waiting):
            return None
        self._waiting, self._unanswered = waiting[:count], count
        if not count:
            self._model.time_limit.forget(self)
        return RequestBatch(self._model, self._reader, waiting[count:], rows[count:])

    def refuse(self, problem: Problem) -> None:
        """Refuses all: nothing takes them any more."""
        self._model.over(partial(self._refuse, problem))

    def give_up(self, _: Problem) -> None:
        """Refuses those that have waited as long as any may; see `TimeLimit.add_oldest`."""
        limit = self._model.time_limit
        late = limit.list_late(self._waiting)
        if self._is_in:
            self._is_late = bool(late)
            for place in late:
                self._waiting[place][0].on_gone()  # the flow says that it is over
        else:
            self._fail(late, limit.problem())
        limit.add_oldest(self, (each for n, each in enumerate(self._waiting) if n not in late))

    # -- what becomes of them: from any thread ----------------------------------------------------

    def on_result(self, positions: Sequence[int], found: Mapping[str, Sequence[Buffer]]) -> None:
        """Has the answers of these written, on the server's thread."""
        self._model.over(partial(self._answer, positions, found, SYSTEM_CLOCK.now()))

    def on_failure(self, positions: Sequence[int], failure: Exception) -> None:
        """Has these refused, on the server's thread."""
        if self._is_late and isinstance(failure, Cancelled):
            problem = self._model.time_limit.problem()
        else:
            problem = problem_of(failure) or internal_problem(failure)
        self._model.over(partial(self._fail, positions, problem))

    # -- and back on the server's thread ----------------------------------------------------------

    def _answer(
        self, positions: Sequence[int], found: Mapping[str, Sequence[Buffer]], left: float
    ) -> None:
        model, waiting = self._model, self._waiting
        self._count_out(len(positions))
        reader = self._reader
        try:
            answers = reader.answers(model, found)
        except Exception as error:  # noqa: BLE001 - whatever it is, nobody is left waiting
            answers = [internal_problem(error)] * len(positions)
        reply = reader.reply
        now = SYSTEM_CLOCK.now()
        figures, seconds = model.figures, []
        for position, answer in zip(positions, answers, strict=True):
            responder, began = waiting[position]
            if isinstance(answer, Problem):
                figures.on_failure(answer.code, 1, now - began)
                responder.answer(reader.refusal(answer))
            else:
                seconds.append(now - began)
                responder.answer(reply(answer))
        figures.on_answers(seconds, now - left)

    def _count_out(self, count: int) -> None:
        self._model.admission.on_done(count)
        self._unanswered -= count
        if not self._unanswered:
            self._model.time_limit.forget(self)

    def _refuse(self, problem: Problem) -> None:
        # Who has gone, until now, has counted itself out.
        left = [place for place, (one, _) in enumerate(self._waiting) if not one.is_over]
        self._fail(left, problem)

    def _fail(self, positions: Sequence[int], problem: Problem) -> None:
        now, figures = SYSTEM_CLOCK.now(), self._model.figures
        self._count_out(len(positions))
        reply = self._reader.refusal(problem)
        for position in positions:
            responder, began = self._waiting[position]
            figures.on_failure(problem.code, 1, now - began)
            responder.answer(reply)
