"""The types of arrays that the ports of a unit declare, and the arrays that are of another.

A unit whose output declares ``uint8`` and that emits a float64 array for the second of three rows:
`wrong_in` gives ``(1, ValueError("out: got a float64 array; expected uint8"))``.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from modelflow.buffer import Buffer
from modelflow.unit.port import Port

__all__ = ["PortTypes"]


class PortTypes:
    """What the inputs, or the outputs, of a unit declare."""

    @classmethod
    def of(cls, ports: Sequence[Port], names: Sequence[str]) -> "PortTypes | None":
        """Returns what ports declare; None: nothing, so that nothing is looked at.

        Args:
            ports: Those of the unit.
            names: Those in use, in the order of the columns.
        """
        found = {port.name: port.tensor.dtype for port in ports if port.tensor is not None}
        return cls([(n, found[n]) if n in found else None for n in names]) if found else None

    def __init__(self, types: "list[tuple[str, np.dtype[Any]] | None]") -> None:
        """Takes, for each port in use, its name and type; None: any."""
        self._types = types

    def check(self, columns: Sequence[Sequence[Any]]) -> None:
        """Checks all columns of one call.

        Args:
            columns: The values of each port in use, in buffers or as they are.

        Raises:
            ValueError: an array of another type than declared.
        """
        for place, values in enumerate(columns):
            buffers = [value if isinstance(value, Buffer) else Buffer(value) for value in values]
            for _, error in self.wrong_in(place, buffers):
                raise error

    def wrong_in(self, place: int, column: Sequence[Buffer]) -> Sequence[tuple[int, ValueError]]:
        """Returns the rows of a column whose arrays are of another type than declared, and why.

        Args:
            place: The column's place among the ports in use.
            column: Its buffers; those without an array are not looked at.
        """
        declared = self._types[place]
        if declared is None:
            return ()
        wrong: list[tuple[int, ValueError]] = []
        name, dtype = declared
        for row, buffer in enumerate(column):
            data = buffer.data
            if type(data) is np.ndarray and data.dtype != dtype:
                error = ValueError(f"{name}: got a {data.dtype} array; expected {dtype}")
                wrong.append((row, error))
        return wrong
