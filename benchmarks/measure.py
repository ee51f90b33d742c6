"""Functions of all benchmark programs: alternating rounds, medians, rates of sessions, tables."""

import contextlib
import json
import math
import statistics
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import modelflow

__all__ = [
    "Table",
    "clients_rate",
    "format_cell",
    "medians",
    "print_table",
    "session_rate",
    "steady_rate",
    "take_turns",
]

Found = TypeVar("Found")


def take_turns(
    programs: Mapping[str, Callable[[], Found]], rounds: int, until: float = math.inf
) -> dict[str, list[Found]]:
    """Runs the programs in alternating rounds (A B A B ...), and returns the figures of each.

    Machines are shared and noisy: compare figures only within one run.

    Args:
        programs: Name -> the program.
        rounds: The most rounds; at least one round runs.
        until: No further round begins after this time, by `time.perf_counter`.
    """
    found: dict[str, list[Found]] = {name: [] for name in programs}
    for number in range(rounds):
        if number and time.perf_counter() > until:
            break
        for name, program in programs.items():
            found[name].append(program())
    return found


def medians(programs: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """Runs the programs in alternating rounds, and returns the median of each program's figures."""
    found = take_turns(programs, rounds)
    return {name: statistics.median(values) for name, values in found.items()}


def session_rate(flow: "modelflow.Flow", value: object, count: int) -> float:
    """Returns results a second of one session that is sent ``value`` so many times."""
    stream = flow.create_stream_io()

    def send() -> None:
        for _ in range(count):
            stream.send("input", value)
        stream.close_input()

    sender = threading.Thread(target=send)
    start = time.perf_counter()
    sender.start()
    received = sum(1 for _ in stream)
    seconds = time.perf_counter() - start
    sender.join()
    assert received == count
    return count / seconds


def clients_rate(ask: Callable[[], object], clients: int, lump: int, seconds: float) -> float:
    """Returns answers a second of threads that each wait for their answer.

    Answers come a lump at a time. The time is measured from the end of the first lump to the last
    answer. If only one lump has come, it is measured from the beginning.
    """
    ends: list[list[float]] = [[] for _ in range(clients)]
    start = time.perf_counter()
    stop = start + seconds

    def use(mine: list[float]) -> None:
        while time.perf_counter() < stop:
            ask()
            mine.append(time.perf_counter())

    threads = [threading.Thread(target=use, args=(mine,)) for mine in ends]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answers = sorted(moment for mine in ends for moment in mine)
    if len(answers) < 2 * lump:
        return len(answers) / (answers[-1] - start)
    return (len(answers) - lump) / (answers[-1] - answers[lump - 1])


def steady_rate(moments: Sequence[float], items: int = 1) -> float:
    """Returns items a second, without the first fifth of the time stamps (the start-up).

    Args:
        moments: Time stamps of results in seconds, rising, at least two.
        items: The items at each time stamp.
    """
    first = len(moments) // 5
    return (len(moments) - 1 - first) * items / (moments[-1] - moments[first])


class Table:
    """A table to which a benchmark adds rows.

    Attributes:
        rows: The rows so far.
        has_failed: Whether an `attempt` has failed.
    """

    def __init__(self, title: str, columns: Sequence[str], *, as_json: bool = False) -> None:
        """Starts without a row.

        Args:
            title: The line above the table.
            columns: The names of the columns; the first one may be empty.
            as_json: `add` prints the whole table as a line ``{"title", "columns", "rows"}``, for
                `gpu.py`. Otherwise `close` prints the table with aligned columns.
        """
        self._title, self._columns, self._as_json = title, columns, as_json
        self.rows: list[list[object]] = []
        self.has_failed = False

    def add(self, *cells: object) -> None:
        """Adds a row; missing cells at its end are empty."""
        self.rows.append([*cells, *[""] * (len(self._columns) - len(cells))])
        if self._as_json:
            found = {"title": self._title, "columns": self._columns, "rows": self.rows}
            print(json.dumps(found), flush=True)

    @contextlib.contextmanager
    def attempt(self, what: str) -> Iterator[None]:
        """Adds a row for an exception of the block, and prints the traceback to standard error.

        Args:
            what: The name of the measurement.
        """
        try:
            yield
        except Exception as error:  # noqa: BLE001 - printed here; the next measurement runs
            self.has_failed = True
            traceback.print_exc()
            reason = " ".join(str(error).split())[:200]
            self.add(f"{what}: FAILED: {type(error).__name__}: {reason}")

    def close(self) -> None:
        """Prints the table, unless `add` has printed its rows."""
        if not self._as_json:
            print_table(self._title, self._columns, self.rows)


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Prints a table with aligned columns; floats with three significant digits."""
    texts = [[format_cell(cell) for cell in row] for row in rows]
    widths = [
        max([len(name), *(len(row[place]) for row in texts)]) for place, name in enumerate(columns)
    ]
    print(f"\n{title}")
    for row in [list(columns), ["-" * width for width in widths], *texts]:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        print("  ".join(cells))


def format_cell(cell: object) -> str:
    """Returns the text of a cell: a float with three significant digits."""
    if not isinstance(cell, float):
        return str(cell)
    return f"{cell:.0f}" if abs(cell) >= 1000 else f"{cell:.3g}"
