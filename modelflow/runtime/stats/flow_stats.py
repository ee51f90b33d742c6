"""The figures of a whole flow at one moment: its nodes, its requests, its memory."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from modelflow.runtime.stats.histogram import Histogram, Record
from modelflow.runtime.stats.node_stats import NodeStats, add_nodes
from modelflow.table import html_table, text_table, time_text


class RequestStats:
    """How the sessions of a flow ended; written under the lock that guards who is in it.

    Attributes:
        ok: How many ended without an error. Of sessions whose rows are a request each the rows are
            counted.
        others: How many ended otherwise: ``failed``: some row of it; ``expired``: likewise, its
            deadline passed; ``cancelled``.
        latencies: How long those lasted that were not cancelled, from the moment in which they were
            opened.
    """

    __slots__ = ("latencies", "ok", "others")

    def __init__(self) -> None:
        self.ok = 0
        self.others: Counter[str] = Counter()
        self.latencies = Record()

    def count(self, outcome: str, requests: int, seconds: float) -> None:
        """Adds requests that have ended together."""
        if outcome == "ok":
            self.ok += requests
        else:
            self.others[outcome] += requests
        if outcome != "cancelled":
            self.latencies.add(seconds, requests)

    def outcomes(self) -> dict[str, int]:
        """Returns how many ended how."""
        return {**({"ok": self.ok} if self.ok else {}), **self.others}


@dataclass(frozen=True)
class FlowStats(Mapping[str, NodeStats]):
    """What a flow has done so far: a mapping from the names of its nodes to their figures.

    Attributes:
        name: The flow's.
        time: When this was taken, in the clock's seconds: the difference of two is what lies
            between them.
        seconds: How long the flow has run.
        nodes: The figures of each node, in topological order.
        requests: Outcome -> sessions (or requests that share one) that have ended so: ``ok``,
            ``failed``, ``expired``, ``cancelled``.
        latency: How long they lasted, without those that were cancelled.
        in_flight: Sessions that are not over.
        unread: Output of the graph -> results that nobody has taken yet.
        unread_bound: Results of one session that nobody has taken at which its sender waits.
        pool: Bytes of host memory that is kept for reuse: ``free`` now.
    """

    name: str = ""
    time: float = 0.0
    seconds: float = 0.0
    nodes: Mapping[str, NodeStats] = field(default_factory=dict)
    requests: Mapping[str, int] = field(default_factory=dict)
    latency: Histogram = field(default_factory=Histogram)
    in_flight: int = 0
    unread: Mapping[str, int] = field(default_factory=dict)
    unread_bound: int = 0
    pool: Mapping[str, int] = field(default_factory=dict)

    def __getitem__(self, node: str) -> NodeStats:
        return self.nodes[node]

    def __iter__(self) -> Iterator[str]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    def __add__(self, other: "FlowStats") -> "FlowStats":
        """Returns the figures of both together: of the same flow in another process."""
        nodes = dict(self.nodes)
        add_nodes(nodes, other.nodes)
        return FlowStats(
            self.name,
            max(self.time, other.time),
            max(self.seconds, other.seconds),
            nodes,
            Counter(self.requests) + Counter(other.requests),
            self.latency + other.latency,
            self.in_flight + other.in_flight,
            Counter(self.unread) + Counter(other.unread),
            self.unread_bound + other.unread_bound,
            Counter(self.pool) + Counter(other.pool),
        )

    @property
    def without_words(self) -> "FlowStats":
        """The same without what errors said: it may hold what somebody has sent."""
        nodes = {name: node.without_words for name, node in self.nodes.items()}
        return replace(self, nodes=nodes)

    def rows(self) -> list[dict[str, str]]:
        """Explains the figures as a table: one row a node, the same columns in each.

        Below a far node are those that stand behind it, as in ``far > infer``.
        """
        found = []
        for node in self.nodes.values():
            found.append(_row(node))
            found += [
                {**_row(inner), "node": f"{node.node} > {name}"}
                for name, inner in node.inside.items()
            ]
        return found

    def __str__(self) -> str:
        return f"{self._headline()}\n{text_table(self.rows())}"

    def _repr_html_(self) -> str:
        return html_table(self.rows(), self._headline())

    def _headline(self) -> str:
        ended = ", ".join(f"{count} {outcome}" for outcome, count in self.requests.items())
        text = f"{self.name or 'flow'}: {self.seconds:.1f} s, requests: {ended or 'none has ended'}"
        return f"{text}, {self.in_flight} in flight"

    @property
    def past(self) -> "FlowStats":
        """The same without what is true of its moment alone: it does not run any more."""
        nodes = {name: node.past for name, node in self.nodes.items()}
        return replace(self, nodes=nodes, in_flight=0, unread={}, unread_bound=0, pool={})


def _row(node: NodeStats) -> dict[str, str]:
    is_called = node.service.count
    return {
        "node": node.node,
        "unit": node.unit,
        "threads": str(node.threads),
        "rows": str(node.buffers),
        "calls": str(node.batches),
        "rows a call": f"{node.mean_batch_size:.1f} of {node.batch_size}",
        "busy": time_text(node.busy),
        "call p50": time_text(node.service.percentile(50)) if is_called else "-",
        "call p99": time_text(node.service.percentile(99)) if is_called else "-",
        "queue": f"{node.queue} of {node.capacity}" if node.capacity else "-",
        "errors": str(node.errors + node.expired),
    }
