"""How a coroutine waits for what another thread brings."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

__all__ = ["signalled", "within"]

Result = TypeVar("Result")


async def within(timeout: float | None, work: Awaitable[Result]) -> Result:
    """Waits for ``work``; raises TimeoutError after ``timeout`` seconds."""
    import asyncio  # a third of the time of importing Flow: only for those who use it

    async with asyncio.timeout(timeout):
        return await work


async def signalled(
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
