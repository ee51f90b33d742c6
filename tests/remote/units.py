"""Units that far processes import: they die, hang, take note of what they get."""

import os
import select
import signal

from modelflow import flowunit


@flowunit
def risky(value, *, notes: str = ""):
    """Doubles a number; -1 kills its process, -2 stops it, -3 is refused, -4 gives a function.

    Args:
        value: The number.
        notes: A file to which each number is appended, a line each.
    """
    if notes:
        with open(notes, "a", encoding="utf-8") as file:
            file.write(f"{value}\n")
    if value == -1:
        os.kill(os.getpid(), signal.SIGKILL)
    if value == -2:
        os.kill(os.getpid(), signal.SIGSTOP)
        select.select([], [], [])  # another thread may be the one that stops first
    if value == -3:
        raise ValueError(f"refuses {value}")
    return (lambda: 0) if value == -4 else 2 * value
