"""A request as a whole: all its values at once, its answer by a callback."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from modelflow.buffer import Buffer
from modelflow.runtime.clock import SYSTEM_CLOCK
from modelflow.runtime.gang import Entrant
from modelflow.runtime.scheduler import Scheduler
from modelflow.runtime.session import Session
from modelflow.stream_io import received, sent

__all__ = ["Request"]


class Request:
    """One request, for `Flow.submit`: a session of its own, that no thread waits for.

    What servers are made of: requests that came together go in together, and whoever finishes one
    calls ``on_end``.
    """

    __slots__ = (
        "_context",
        "_due",
        "_is_cancelled",
        "_on_end",
        "_scheduler",
        "_session",
        "inputs",
    )

    inputs: Mapping[str, Sequence[Any]]
    """The values for each input."""

    def __init__(
        self,
        inputs: Mapping[str, Sequence[Any]],
        on_end: Callable[["Request"], None],
        *,
        deadline: float | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> None:
        """Makes a request that no flow has yet.

        Args:
            inputs: The values for each input of the graph: one a buffer.
            on_end: Called once, with the request, when `answer` would not wait: when everything has
                come out, the request was cancelled, or the flow has ended. On the thread that
                brought it about, which it must not hold up.
            deadline: Seconds from now after which nothing is computed for it any more.
            context: First content of the dict that the session's units share.
        """
        self.inputs = inputs
        self._on_end = on_end
        self._due = None if deadline is None else SYSTEM_CLOCK.now() + deadline
        self._context = context
        self._is_cancelled = False
        self._scheduler: Scheduler | None = None
        self._session: Session | None = None

    @property
    def is_submitted(self) -> bool:
        """Tells whether a flow has it, or was asked to take it."""
        return self._session is not None

    def begin(self, scheduler: Scheduler, session: Session) -> None:
        """Gives it the session that it is to be (called by `Flow`)."""
        self._scheduler, self._session = scheduler, session
        session.progress.is_collected = True
        if self._context:
            session.context.update(self._context)
        session.on_end(self._ended)
        if self._is_cancelled:
            scheduler.cancel(session)

    def entrant(self) -> Entrant:
        """Returns what goes into the graph (called by `Flow`)."""
        assert self._session is not None  # `begin` was called
        columns = {name: [sent(v) for v in values] for name, values in self.inputs.items()}
        return Entrant(self._session, columns, self._due)

    def _ended(self) -> None:
        self._on_end(self)

    def cancel(self) -> None:
        """Ends it at once: what is queued for it is dropped, `answer` raises `Cancelled`."""
        self._is_cancelled = True
        if self._scheduler is not None and self._session is not None:
            self._scheduler.cancel(self._session)

    def answer(self) -> dict[str, list[Buffer]]:
        """Returns what came out of each output, some perhaps in error; once, after ``on_end``.

        Raises:
            Cancelled: it was cancelled.
            StreamClosed: the flow was stopped, or failed.
            TimeoutError: it is not over yet.
        """
        if self._session is None:
            message = "the request was not submitted yet"
            raise TimeoutError(message)
        return {
            output: [*map(received, results.get_all(SYSTEM_CLOCK, 0.0))]
            for output, results in self._session.results.items()
        }
