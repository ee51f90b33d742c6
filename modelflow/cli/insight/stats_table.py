"""Tables of a flow's figures in the terminal."""

from typing import TYPE_CHECKING

from modelflow.table import time_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console
    from rich.table import Table

    from modelflow.profile.interval import Interval, NodeInterval
    from modelflow.runtime.stats import Histogram


# Columns if the output is no terminal: wide enough to cut no cell.
_WIDE = 200

_COLUMNS = (
    *("node", "threads", "rows/s", "rows a call", "busy", "starved", "blocked", "order", "queue"),
    *("call p50", "p99", "wait p50", "p99", "errors"),
)


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
    return console if console.is_terminal else Console(width=_WIDE)


def headline(interval: "Interval") -> str:
    """Returns a line with the rate, the outcomes and the latencies of the requests."""
    ended = ", ".join(f"{count} {outcome}" for outcome, count in interval.requests.items())
    rate = f"{interval.requests_per_second:.1f} requests/s"
    text = f"{interval.name}: {interval.seconds:.1f} s, {rate}"
    text += f" ({ended or 'none has ended'}), {interval.in_flight} in flight"
    latency = interval.latency
    if latency.count:
        marks = (f"p{mark} {time_text(latency.percentile(mark))}" for mark in (50, 95, 99))
        text += f"; {', '.join(marks)}"
    return text


def table_of(interval: "Interval") -> "Table":
    """Returns a table with a row for each node; fused nodes share the workers of the first.

    The nodes that run behind a remote node are listed below that node.
    """
    from rich.text import Text

    table = make_table(_COLUMNS, left=("node",))
    for node in interval.nodes:
        table.add_row(*(Text(cell) for cell in _cells(node)))
        for inner in node.inside:
            _, *cells = _cells(inner)
            table.add_row(*map(Text, (f"  > {inner.node}", *cells)))
    return table


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
