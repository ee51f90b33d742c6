"""The statistics of a flow at one time: its nodes, requests and memory."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from modelflow.runtime.stats.histogram import Histogram, Record
from modelflow.runtime.stats.node_stats import NodeStats, add_nodes, add_up
from modelflow.table import html_table, text_table, time_text


class RequestStats:
    """The outcomes of a flow's sessions, written under the lock of the session registry.

    Attributes:
        ok: The number of sessions without an error. For a request batch, each request counts.
        others: The number of other sessions by outcome. ``failed`` if a row failed, ``expired`` if
            the deadline of a row passed, or ``cancelled``.
        latencies: The times from the opening to the end of all sessions that were not cancelled.
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
        """Returns the number of requests by outcome."""
        return {**({"ok": self.ok} if self.ok else {}), **self.others}


@dataclass(frozen=True)
class FlowStats(Mapping[str, NodeStats]):
    """The statistics of a flow: a mapping from node names to the statistics of each node.

    Attributes:
        name: The name of the flow.
        time: The time of this snapshot, in seconds of the clock. The difference of two snapshots
            covers the time between them.
        seconds: The running time of the flow.
        nodes: The statistics of each node, in topological order.
        requests: Outcome -> number of requests. The outcomes are ``ok``, ``failed``, ``expired``
            and ``cancelled``. A session is a request, or a batch of requests.
        latency: The lengths of all requests that were not cancelled.
        in_flight: The number of sessions that have not ended.
        unread: Output of the graph -> number of results that no reader has taken yet.
        unread_bound: The number of unread results of a session at which its sender waits.
        pool: Bytes of host memory that is kept for reuse. ``free`` is the memory that is unused
            now.
        admission: With ``max_in_flight``: ``bound``, its value, and ``full``, the seconds for which
            so many rows were inside the graph. Empty without a limit.
        answered: In a server: ``count``, the number of answered requests, and ``seconds``, the sum
            of their times from arrival to reply. Else empty.
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
    admission: Mapping[str, float] = field(default_factory=dict)
    answered: Mapping[str, float] = field(default_factory=dict)

    def __getitem__(self, node: str) -> NodeStats:
        return self.nodes[node]

    def __iter__(self) -> Iterator[str]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    def __add__(self, other: "FlowStats") -> "FlowStats":
        """Returns the sum with the statistics of the same flow in another process."""
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
            add_up(self.admission, other.admission),
            add_up(self.answered, other.answered),
        )

    @property
    def without_words(self) -> "FlowStats":
        """The statistics without the texts of errors, which may contain data of a client."""
        nodes = {name: node.without_words for name, node in self.nodes.items()}
        return replace(self, nodes=nodes)

    def rows(self) -> list[dict[str, str]]:
        """Returns a table with a row for each node, for people to read.

        A remote node, which runs on other machines, is followed by the nodes of its replicas, as in
        ``far > infer``.
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
        """The statistics of an ended flow, without current values such as queue lengths."""
        nodes = {name: node.past for name, node in self.nodes.items()}
        admission = {name: value for name, value in self.admission.items() if name != "bound"}
        return replace(
            self, nodes=nodes, in_flight=0, unread={}, unread_bound=0, pool={}, admission=admission
        )


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
