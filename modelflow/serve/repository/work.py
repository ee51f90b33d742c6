"""Work on threads of its own, and whose turn it is to load: two at a time."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from modelflow.errors import Cancelled, EngineError, describe_error
from modelflow.runtime.workers.stacks import find_position

if TYPE_CHECKING:
    from modelflow.flow import Flow

T = TypeVar("T")

ALONE = 2
"""So many load at a time: the weight of one that loads alone, behind all others."""

# Those that take longer than so many seconds do not count.
_SLOW = 5.0


@dataclass(frozen=True, eq=False)
class _Turn:
    """Somebody who waits to load, or does."""

    weight: int


class Turns:
    """Whose turn it is to load: in the order in which they came, a few at a time.

    Whoever takes long does not count, so that what hangs holds up nobody.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: list[_Turn] = []
        self._began: dict[_Turn, float] = {}
        self._is_over = False

    @contextmanager
    def take(self, weight: int) -> Iterator[None]:
        """Waits for a turn, and has it inside the block.

        Args:
            weight: 1, or `ALONE`.

        Raises:
            Cancelled: the end has begun.
        """
        one = _Turn(weight)
        with self._changed:
            self._waiting.append(one)
            self._waiting.sort(key=lambda turn: turn.weight)
            while not self._is_over and (self._waiting[0] is not one or self._delay() > 0):
                self._changed.wait(self._delay() if self._waiting[0] is one else None)
            self._waiting.remove(one)
            self._changed.notify_all()
            if self._is_over:
                raise Cancelled("the server is being stopped")
            self._began[one] = time.monotonic()
        try:
            yield
        finally:
            with self._changed:
                del self._began[one]
                self._changed.notify_all()

    def _delay(self) -> float:
        """Returns the seconds until one more may begin, if none ends before."""
        now = time.monotonic()
        free = ALONE - self._waiting[0].weight
        # The latest first: they are the last that do not count any more.
        for turn, began in sorted(self._began.items(), key=lambda item: -item[1]):
            if now - began < _SLOW:
                free -= turn.weight
                if free < 0:
                    return began + _SLOW - now
        return 0.0

    def end(self) -> None:
        """Gives nobody a turn any more."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()


class Work:
    """Something that is done on a thread of its own."""

    def __init__(self, name: str, work: Callable[[], object]) -> None:
        """Starts nothing yet."""
        # A daemon: foreign code that does not come back must not keep the process from ending.
        self.thread = threading.Thread(target=work, name=f"modelflow/{name}", daemon=True)
        self.flows: Sequence[Flow] = ()  # that it ends, or was loading when it was given up

    def position(self) -> str:
        """Returns where its own thread stands: ``file:line in function``; ``""``: it is over."""
        return find_position(self.thread.ident or 0)

    def find_hanging(self) -> str:
        """Returns where it stands, or its flows do; ``""``: all has come back."""
        busy = dict.fromkeys(text for flow in self.flows for text in flow.scheduler.list_busy())
        if busy or not self.thread.is_alive():
            return "; ".join(busy)
        return f"it is at {self.position()}"


def outcome_of(work: Callable[[], T]) -> T | Exception:
    """Returns what a call returns or raises."""
    try:
        return work()
    except BaseException as error:  # noqa: BLE001 - whoever asked is told
        return error if isinstance(error, Exception) else _format_error(error)


def _format_error(error: BaseException) -> Exception:
    """Says what code of a model has raised to end the process, as ``sys.exit`` does."""
    told = EngineError(
        f"{describe_error(error)}: raised while it was loaded; a model may end nothing"
    )
    told.__cause__ = error
    return told
