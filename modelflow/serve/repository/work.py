"""Work on separate threads, and the turns of loads: two loads at a time."""

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
"""The total weight of concurrent loads.

A load of this weight runs alone, after all lighter loads.
"""

# Seconds after which a running load no longer counts.
_SLOW = 5.0


@dataclass(frozen=True, eq=False)
class _Turn:
    """The turn of a load that waits or runs."""

    weight: int


class Turns:
    """The turns of loads, in order of weight and arrival, up to a total weight.

    A load that takes longer than `_SLOW` seconds no longer counts. A load that hangs therefore
    blocks no other load.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: list[_Turn] = []
        self._began: dict[_Turn, float] = {}
        self._is_over = False

    @contextmanager
    def take(self, weight: int) -> Iterator[None]:
        """Waits for a turn, and keeps the turn inside the block.

        Args:
            weight: 1, or `ALONE`.

        Raises:
            Cancelled: `end` was called.
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
        """Returns the seconds until the next load may begin, if no running load ends before."""
        now = time.monotonic()
        free = ALONE - self._waiting[0].weight
        # Newest first, because the newest turns count longest. The turn that exceeds the limit must
        # become slow before the next load may begin.
        for turn, began in sorted(self._began.items(), key=lambda item: -item[1]):
            if now - began < _SLOW:
                free -= turn.weight
                if free < 0:
                    return began + _SLOW - now
        return 0.0

    def end(self) -> None:
        """Cancels all waiting turns, and gives no further turns."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()


class Work:
    """A function on its own thread."""

    def __init__(self, name: str, work: Callable[[], object]) -> None:
        """Creates the thread, but does not start the thread yet."""
        # A daemon, because foreign code that never returns must not keep the process alive.
        self.thread = threading.Thread(target=work, name=f"modelflow/{name}", daemon=True)
        # The flows that this work stops, or was loading when it was given up.
        self.flows: Sequence[Flow] = ()

    def position(self) -> str:
        """Returns the thread's position, ``file:line in function``, or ``""`` after its end."""
        return find_position(self.thread.ident or 0)

    def find_hanging(self) -> str:
        """Returns the position at which the work or its flows hang, or ``""`` if all have ended."""
        busy = dict.fromkeys(text for flow in self.flows for text in flow.scheduler.list_busy())
        if busy or not self.thread.is_alive():
            return "; ".join(busy)
        return f"it is at {self.position()}"


def outcome_of(work: Callable[[], T]) -> T | Exception:
    """Returns the result of a call, or its exception."""
    try:
        return work()
    except BaseException as error:  # noqa: BLE001 - the caller gets the error
        return error if isinstance(error, Exception) else _format_error(error)


def _format_error(error: BaseException) -> Exception:
    """Returns the error for model code that raises to end the process, as ``sys.exit`` does."""
    told = EngineError(
        f"{describe_error(error)}: raised while it was loaded; a model may end nothing"
    )
    told.__cause__ = error
    return told
