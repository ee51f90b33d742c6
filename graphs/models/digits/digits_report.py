"""The sink of ``digits.toml``: prints the results."""

import sys
from pathlib import Path
from typing import Any

from modelflow import Context, FlowUnit

_NEXT = """next: modelflow check -v digits      the plan: threads, batches, queues
      modelflow doctor digits        the bottleneck
      modelflow serve digit          the same network as a server
      modelflow init my_app          an application of your own
"""


class DigitsReport(FlowUnit):
    """Prints ``0042_7.png 7 0.998`` for the first files, and the accuracy at the end.

    A file's name has the true digit after the underscore. Files with other names are printed, and
    do not count for the accuracy. Give the node one thread, to keep the lines in order.
    """

    def open(self, config: Any) -> None:
        """Starts counting."""
        self._lines = int(config.lines)
        self._seen = 0
        self._right = 0
        self._counted = 0

    def process(self, ctx: Context) -> None:
        """Prints a line for each of the first files."""
        for buffer in ctx.input("in_data"):
            best = buffer.data[0]
            name = Path(buffer.get("path", "-")).name
            self._seen += 1
            if self._seen <= self._lines:
                sys.stdout.write(f"{name} {best['class']} {best['score']:.3f}\n")
            truth = Path(name).stem.rpartition("_")[2]
            if truth.isdecimal():
                self._counted += 1
                self._right += int(truth) == best["index"]

    def close(self) -> None:
        """Prints the number of the other files, the accuracy, and commands to try next."""
        if self._seen > self._lines:
            sys.stdout.write(f"... and {self._seen - self._lines} more\n")
        if self._counted:
            rate = 100 * self._right / self._counted
            sys.stdout.write(f"accuracy: {rate:.1f} % ({self._right} of {self._counted})\n")
        sys.stdout.write(_NEXT)
        sys.stdout.flush()
