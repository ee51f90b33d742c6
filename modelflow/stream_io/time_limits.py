"""How long the caller of an answer waits for it."""

from collections.abc import Iterator
from contextlib import contextmanager

from modelflow.errors import DeadlineExceeded
from modelflow.seconds import check_seconds

__all__ = ["wait_until_deadline"]


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
        message = f"no answer within {deadline:g} s, its deadline; the request is cancelled"
        raise DeadlineExceeded(message) from error
