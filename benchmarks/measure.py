"""What the benchmark programs share: taking turns, medians, the rate of a session, tables."""

import json
import statistics
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import modelflow

__all__ = ["format_cell", "medians", "print_table", "session_rate", "steady_rate"]


def medians(programs: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """Runs the programs in turn (A B A B ...) and returns the median of each one's figures.

    Machines are shared and noisy: figures are only to be compared within one run.
    """
    found: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(rounds):
        for name, program in programs.items():
            found[name].append(program())
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


def steady_rate(moments: Sequence[float], items: int = 1) -> float:
    """Returns items a second from the moments at which they came, without the first fifth.

    Args:
        moments: Seconds, rising, at least two.
        items: How many came at each.
    """
    first = len(moments) // 5
    return (len(moments) - 1 - first) * items / (moments[-1] - moments[first])


def print_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], *, as_json: bool = False
) -> None:
    """Prints a table with aligned columns; floats with three significant digits.

    Args:
        title: Stands above it.
        columns: Their names; the first one may be empty.
        rows: A cell a column.
        as_json: Print it as one line of JSON instead, at once: ``{"title", "columns", "rows"}``. A
            table that is printed again, with more rows, replaces the one before (`gpu.py`).
    """
    if as_json:
        print(json.dumps({"title": title, "columns": columns, "rows": rows}), flush=True)
        return
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
