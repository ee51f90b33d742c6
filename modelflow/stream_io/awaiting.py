"""Waits of a thread or a coroutine for the results of another thread."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from modelflow.errors import DeadlineExceeded
from modelflow.quantities import check_seconds


@contextmanager
def wait_until_deadline(deadline: float, timeout: float | None) -> Iterator[float]:
    """Yields the time in seconds that a caller waits for the answer to a request.

    A unit that is working when the deadline passes is not interrupted, and may never return. The
    caller does not wait for that unit.

    Args:
        deadline: Seconds from now after which the answer is of no use.
        timeout: The longest wait in seconds, or None for no limit but the deadline.

    Raises:
        TypeError, ValueError: A time is no number.
        DeadlineExceeded: The deadline passed during the wait inside the block.
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
    import asyncio  # not at the top: it takes a third of the import time of Flow

    async with asyncio.timeout(timeout):
        return await work


async def wait_for_callback(
    register: Callable[[Callable[[], None]], None], forget: Callable[[Callable[[], None]], None]
) -> None:
    """Waits until any thread calls the callback that ``register`` receives."""
    import asyncio

    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def resolve() -> None:
        if not future.done():
            future.set_result(None)

    def signal() -> None:
        try:
            loop.call_soon_threadsafe(resolve)
        except RuntimeError:  # the loop has ended, and no task waits
            return

    register(signal)
    try:
        await future
    finally:
        forget(signal)
