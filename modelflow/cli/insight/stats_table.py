"""Tables of a flow's figures in the terminal."""

from typing import TYPE_CHECKING

from modelflow.cli.terminal.messages import colour_wish
from modelflow.draw.text import shorten
from modelflow.table import time_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console, Group
    from rich.table import Table

    from modelflow.profile.interval import Interval, NodeInterval
    from modelflow.runtime.stats import Histogram


# Columns if the output is no terminal: wide enough to cut no cell.
_WIDE = 200

_COLUMNS = (
    *("node", "threads", "rows/s", "rows a call", "busy", "starved", "blocked", "order", "queue"),
    *("call p50", "p99", "wait p50", "p99", "errors"),
)
# The columns by their place in `_COLUMNS`, with the name for the line about hidden columns. A
# narrow terminal shows as many as fit, the first ones first.
_IMPORTANCE = {
    0: "node",
    2: "rows/s",
    4: "busy",
    13: "errors",
    8: "queue",
    3: "rows a call",
    9: "call p50",
    5: "starved",
    6: "blocked",
    10: "call p99",
    1: "threads",
    11: "wait p50",
    12: "wait p99",
    7: "order",
}
_GAP = 2  # between columns


def make_table(heads: "Sequence[str]", left: "Sequence[str]" = ()) -> "Table":
    """Returns a table without rows; columns named in ``left`` hold texts, the others figures."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in heads:
        table.add_column(head, justify="left" if head in left else "right", no_wrap=True)
    return table


def table_console() -> "Console":
    """Returns the console that writes tables to standard output."""
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        return Console(width=_WIDE)
    # rich would still write bold text without colours
    return Console(color_system=None) if colour_wish() is False else console


def headline(interval: "Interval") -> str:
    """Returns a line with the rate, the outcomes and the latencies of the requests."""
    ended = ", ".join(f"{count} {outcome}" for outcome, count in interval.requests.items())
    rate = f"{interval.requests_per_second:.1f} requests/s"
    text = f"{interval.name}: {interval.seconds:.1f} s, {rate}"
    text += f" ({ended or 'none has ended'}), {interval.in_flight} in flight"
    latency = interval.latency
    if latency.count:
        marks = (f"p{mark} {time_text(latency.percentile(mark))}" for mark in (50, 95, 99))
        if interval.request_seconds is None:
            text += f"; {', '.join(marks)}"
        else:
            whole = time_text(interval.request_seconds)
            text += f"; a request takes {whole} on average; in the graph {', '.join(marks)}"
    return text


def show_stats(interval: "Interval", width: int) -> "Group":
    """Returns the headline, and a table with a row for each node.

    Fused nodes share the workers of the first. The nodes that run behind a remote node are listed
    below that node. Columns that do not fit are left out, and a line names them.

    Args:
        interval: The figures.
        width: The number of letters in a line.
    """
    from rich.console import Group
    from rich.text import Text

    rows = []
    for node in interval.nodes:
        rows.append(_cells(node))
        for inner in node.inside:
            _, *cells = _cells(inner)
            rows.append([f"  > {inner.node}", *cells])
    for row in rows:
        row[0] = shorten(row[0], max(width // 2, 1))
    shown = choose_columns([list(_COLUMNS), *rows], list(_IMPORTANCE), width)
    table = make_table([_COLUMNS[place] for place in shown], left=("node",))
    for row in rows:
        table.add_row(*(Text(row[place]) for place in shown))
    used = {place for row in rows for place, cell in enumerate(row) if cell}
    hidden = [name for place, name in _IMPORTANCE.items() if place in used - {*shown}]
    note = Text(f"a wider terminal also shows: {', '.join(hidden)}" if hidden else "", style="dim")
    return Group(Text(headline(interval)), table, *([note] if hidden else []))


def choose_columns(
    rows: "Sequence[Sequence[str]]", order: "Sequence[int]", width: int
) -> list[int]:
    """Returns the places of the columns that fit into a width.

    Args:
        rows: The cells, with the heads first.
        order: The places of the columns, the most important first. The first is always shown. A
            column of empty cells counts as least important.
        width: The number of letters in a line.
    """
    is_empty = {place: not any(row[place] for row in rows[1:]) for place in order}
    shown: list[int] = []
    left = width + _GAP
    for place in sorted(order, key=is_empty.__getitem__):
        left -= max(len(row[place]) for row in rows) + _GAP
        if left < 0 and shown:
            break
        shown.append(place)
    return sorted(shown)


def _cells(node: "NodeInterval") -> list[str]:
    is_first = node.stage == node.node
    of_stage = [_share(node.starved), _share(node.blocked), _share(node.order)]
    batch = f"{node.mean_batch_size:.1f} of {node.batch_size}" if node.mean_batch_size else "-"
    replicas = f" ({node.replicas_text})" if node.replicas else ""
    return [
        node.node + replicas if is_first else f"  + {node.node}",
        str(node.threads),
        f"{node.rows_per_second:.1f}",
        batch,
        _share(node.busy),
        *(of_stage if is_first else ["", "", ""]),
        f"{node.queue} of {node.capacity}" if is_first and node.capacity else "",
        *_marks(node.service),
        *(_marks(node.wait) if is_first else ["", ""]),
        str(node.errors + node.expired) if node.errors + node.expired else "",
    ]


def _marks(histogram: "Histogram") -> list[str]:
    if not histogram.count:
        return ["-", "-"]
    return [time_text(histogram.percentile(50)), time_text(histogram.percentile(99))]


def _share(share: float) -> str:
    return f"{share:.0%}"
