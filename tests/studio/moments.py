"""Snapshots of a flow that never ran."""

from dataclasses import replace

from modelflow.draw.outline import PORT, Outline, OutlineEdge, OutlineNode
from modelflow.profile.snapshot import Snapshot
from modelflow.runtime.stats import FlowStats, NodeStats

__all__ = ["OUTLINE", "far_moment", "moment"]

OUTLINE = Outline(
    "faces",
    (
        OutlineNode("input", PORT, ("input",), (), ("input",)),
        OutlineNode("decode", "cpu", ("decode",), ("in",), ("out",)),
        OutlineNode("infer", "cuda", ("infer",), ("in",), ("out",)),
    ),
    (
        OutlineEdge("input", "input", "decode", "in"),
        OutlineEdge("decode", "out", "infer", "in"),
    ),
)


def moment(seconds, rows=0, *, requests=None, queue=0, **more):
    """Returns the flow after so many seconds, with so many rows at each node."""
    nodes = {
        name: NodeStats(
            name,
            "unit",
            stage=name,
            threads=1,
            buffers=rows,
            batches=rows,
            batch_sizes={1: rows} if rows else {},
            batch_seconds={1: rows * 1e-3} if rows else {},
            busy=rows * 1e-3,
            starved=seconds - rows * 1e-3,
            seconds=seconds,
            queue=queue,
            capacity=16,
            batch_size=1,
            **more,
        )
        for name in ("decode", "infer")
    }
    stats = FlowStats("faces", 100.0 + seconds, seconds, nodes, requests or {})
    row = {"unit": "unit", "queue": "16", "device": "cpu", "feeds": "-"}
    plan = tuple({"node": name, **row} for name in nodes)
    return Snapshot(stats, plan, {"processors": 2}, {}, OUTLINE)


def far_moment(seconds, *rows):
    """Returns the same flow with replicas after "infer" that have handled so many rows."""
    here = moment(seconds, sum(rows))
    node = here.stats["infer"]
    replicas = {
        f"host/{number}": {"net": replace(node, node="net", stage="net", buffers=count)}
        for number, count in enumerate(rows)
    }
    nodes = {**here.stats.nodes, "infer": replace(node, unit="remote", replicas=replicas)}
    return replace(here, stats=replace(here.stats, nodes=nodes))
