"""How a caller or a coroutine waits for what another thread brings."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from modelflow.errors import DeadlineExceeded
from modelflow.quantities import check_seconds


@contextmanager
def wait_until_deadline(deadline: float, timeout: float | None) -> Iterator[float]:
    """Gives the time that a caller waits for the answer to one request.

    A unit that is at work when the deadline passes is not interrupted, and may never come back. The
    caller does not wait for it.

    Args:
        deadline: Seconds from now after which the answer is of no use.
        timeout: Longest wait in seconds; None: the deadline alone counts.

    Raises:
        TypeError, ValueError: a time is no number.
        DeadlineExceeded: the wait inside ended with the deadline.
    """
    deadline = check_seconds("deadline", deadline)
    if timeout is not None and check_seconds("timeout", timeout) < deadline:
        yield timeout
        return
    try:
        yield deadline
    except DeadlineExceeded:
        raise
    except TimeoutError as error:
        raise DeadlineExceeded(
            f"no answer within {deadline:g} s, its deadline; the request is cancelled"
        ) from error


Result = TypeVar("Result")


async def within(timeout: float | None, work: Awaitable[Result]) -> Result:
    """Waits for ``work``; raises TimeoutError after ``timeout`` seconds."""
    import asyncio  # a third of the time of importing Flow: only for those who use it

    async with asyncio.timeout(timeout):
        return await work


async def wait_for_callback(
    register: Callable[[Callable[[], None]], None], forget: Callable[[Callable[[], None]], None]
) -> None:
    """Waits until the callback given to ``register`` is called, from whichever thread."""
    import asyncio

    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def resolve() -> None:
        if not future.done():
            future.set_result(None)

    def signal() -> None:
        try:
            loop.call_soon_threadsafe(resolve)
        except RuntimeError:  # the loop has ended, and nobody waits
            return

    register(signal)
    try:
        await future
    finally:
        forget(signal)
