"""The call of a loop unit, for one row at a time."""

from typing import Any

from modelflow.buffer import Buffer
from modelflow.runtime.kinds.row_call import RowCall
from modelflow.runtime.session.segment import Columns


class LoopCall(RowCall):
    """The call of a loop: a cell is the buffer, or None if the row leaves by the other output.

    A row in error leaves by the exit.
    """

    def _settle(self, values: list[list[Any]], sources: Columns) -> list[Any]:
        counts = dict(zip(self._outputs, map(len, values), strict=True))
        if sum(counts.values()) != 1:
            text = ", ".join(f"{count} values on {name!r}" for name, count in counts.items())
            raise ValueError(f"gave {text}; a loop gives one, on one output")
        return [self._inheriting(given[0], sources) if given else None for given in values]

    def _fail(self, bad: Buffer) -> list[Any]:
        leaving = self.plan.exit_port
        return [bad if port == leaving else None for port in range(len(self._outputs))]
