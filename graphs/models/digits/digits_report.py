"""The sink of ``digits.toml``: prints the results."""

import sys
from pathlib import Path
from typing import Any

from modelflow import Context, FlowUnit


class DigitsReport(FlowUnit):
    """Prints ``0042_7.png 7 0.998`` for each file, and the accuracy when it closes.

    The true digit stands in the file's name, after the underscore; files named otherwise are
    printed and not counted. Give its node one thread, so that the lines keep the order.
    """

    def open(self, config: Any) -> None:  # noqa: ARG002 - no options
        """Starts counting."""
        self._right = 0
        self._counted = 0

    def process(self, ctx: Context) -> None:
        """Prints a line a file."""
        for buffer in ctx.input("in_data"):
            best = buffer.data[0]
            name = Path(buffer.get("path", "-")).name
            sys.stdout.write(f"{name} {best['class']} {best['score']:.3f}\n")
            truth = Path(name).stem.rpartition("_")[2]
            if truth.isdecimal():
                self._counted += 1
                self._right += int(truth) == best["index"]

    def close(self) -> None:
        """Prints the accuracy."""
        if self._counted:
            rate = 100 * self._right / self._counted
            sys.stdout.write(f"accuracy: {rate:.1f} % ({self._right} of {self._counted})\n")
        sys.stdout.flush()
