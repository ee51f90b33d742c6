"""Flows after 10 seconds of observation, as the doctor's input."""

from modelflow.insight.doctor import Case
from modelflow.profile.snapshot import Snapshot
from modelflow.runtime.stats import FlowStats, NodeStats
from modelflow.runtime.stats.histogram import Record

__all__ = ["SECONDS", "case_of", "node", "times"]

SECONDS = 10.0


def times(**counts):
    """Returns a histogram of calls from durations ('ms4': 4 ms) and their counts."""
    found = Record()
    for name, count in counts.items():
        for _ in range(count):
            found.add(int(name[2:]) / 1e3)
    return found.histogram()


def node(name, threads=1, *, source=False, device="cpu", feeds="-", **more):
    """Returns a node's statistics after 10 s, in shares of its workers' time, and its plan.

    In the rest of the time, the node did nothing.
    """
    known = sum(more.get(key, 0.0) for key in ("busy", "blocked", "order"))
    more.setdefault("starved", max(0.0, 1.0 - known) if known < 0.9 else 0.0)
    workers = threads * SECONDS
    shares = {
        key: more.pop(key, 0.0) * workers
        for key in ("busy", "starved", "blocked", "order", "on_core", "runnable", "moving")
    }
    rows = more.pop("rows", 1000)
    size = more.pop("size", 1)
    calls = more.pop("calls", None) or {size: (rows // size, shares["busy"])}
    kind = more.pop("kind", "unit")
    stats = NodeStats(
        name,
        "unit",
        stage=more.pop("stage", name),
        threads=threads,
        seconds=workers,
        buffers=rows,
        batches=sum(count for count, _ in calls.values()),
        batch_sizes={size: count for size, (count, _) in calls.items()},
        batch_seconds={size: spent for size, (_, spent) in calls.items()},
        capacity=0 if source else more.pop("capacity", 32),
        **shares,
        **more,
    )
    row = {
        "node": name,
        "unit": kind,
        "device": device,
        "queue": "-" if source else "in 32",
        "feeds": feeds,
    }
    return stats, row


def case_of(
    *nodes,
    cores=0.5,
    foreign=0.0,
    native=0.0,
    collecting=0.0,
    front_end=None,
    full=None,
    lock_wait=None,
    lock_wait_p75=None,
    has_lock=True,
    is_driven=False,
    **flow,
):
    """Returns the flow of these nodes on two processors."""
    plan = tuple(row for _, row in nodes)
    machine = {"processors": 2, "interpreter_lock": has_lock}
    used = {"processor_seconds": 100.0, "machine_busy_seconds": 500.0, "native_seconds": 7.0}
    used |= {"collection_seconds": 3.0, "front_end_seconds": 2.0}
    if full is not None:
        flow["admission"] = {"bound": 4, "full": full * SECONDS}
    first = FlowStats(
        "f", 50.0, 10.0, {stats.node: NodeStats(stats.node, "unit") for stats, _ in nodes}
    )
    second = FlowStats("f", 60.0, 20.0, {stats.node: stats for stats, _ in nodes}, **flow)
    later = {
        "processor_seconds": 100.0 + cores * SECONDS,
        "machine_busy_seconds": 500.0 + (cores + foreign) * SECONDS,
        "native_seconds": 7.0 + native * SECONDS,
        "collection_seconds": 3.0 + collecting * SECONDS,
    }
    if front_end is not None:
        later |= {"front_end_seconds": 2.0 + front_end * SECONDS, "front_ends": 1.0}
    if lock_wait is not None:
        later["lock_wait_seconds"] = lock_wait
    if lock_wait_p75 is not None:
        later["lock_wait_p75_seconds"] = lock_wait_p75
    return Case.between(
        Snapshot(first, plan, machine, used),
        Snapshot(second, plan, machine, later),
        is_driven=is_driven,
    )
