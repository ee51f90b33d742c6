"""The rules for bounds outside a node's threads; pure functions, in the order of their use.

Rows may wait although no node is at full load. They wait at the limit of rows in flight, before a
loop, or at a short queue. In a server, they may wait for the HTTP thread. Each rule returns a
`Finding` or None.
"""

from modelflow.insight.doctor.case import Case, StageCase
from modelflow.insight.doctor.finding import Cause, Finding

# Above this load a node has enough to do, and a bound elsewhere is no limit.
_ENOUGH = 0.9
_MUCH_FULL = 0.8
_MUCH_ORDER = 0.08
_LEAST_CALLS = 20
# A call is slow if it takes this many times the median call.
_SLOW = 5.0
# Shares of the time in which the node before waits for room, and the node for rows.
_BLOCKED, _STARVED = 0.05, 0.1
# The rows of a queue if the graph says nothing.
_USUAL = 32


def front_end(case: Case) -> Finding | None:
    """Finds a server whose HTTP thread has no time left."""
    if not case.is_front_end_busy or case.front_end is None:
        return None
    evidence = [f"its HTTP thread uses {case.front_end:.0%} of a processor"]
    whole, inside = case.interval.request_seconds, case.interval.latency
    if whole is not None and inside.count:
        evidence.append(
            f"a request takes {whole * 1e3:.3g} ms, of it {inside.mean * 1e3:.3g} ms in the graph"
        )
    return Finding(
        "server",
        Cause.FRONT_END,
        "its HTTP thread reads and writes all the time, and the nodes wait for it",
        tuple(evidence),
        advice="several server processes (--processes), binary bodies, or larger requests",
    )


def rows_in_flight(case: Case) -> Finding | None:
    """Finds ``max_in_flight`` that leaves the nodes too few rows."""
    stage = case.limiting
    if stage is None or case.full < _MUCH_FULL:
        return None
    node = stage.first
    if stage.load >= _ENOUGH and node.mean_batch_size >= 0.5 * node.batch_size:
        return None
    return Finding(
        "max_in_flight",
        Cause.IN_FLIGHT,
        f"{case.max_in_flight} rows are inside the graph, and no more may enter",
        (
            f"the limit is reached for {case.full:.0%} of the time",
            f"no node is busy more than {stage.occupied:.0%}",
        ),
        change={"max_in_flight": 4 * case.max_in_flight},
        then=f"{stage.name} (busy {stage.occupied:.0%})",
    )


def loop_bound(case: Case) -> Finding | None:
    """Finds a loop that is full."""
    stage = case.limiting
    if stage is None or stage.load >= _ENOUGH:
        return None
    for one in case.stages:
        inside = one.first.loop.get("inside", 0)
        if inside and inside >= one.first.loop["bound"]:
            return Finding(
                one.name,
                Cause.LOOP_BOUND,
                f"the loop holds {inside} rows, and no more may enter",
                (f"no node is busy more than {stage.occupied:.0%}",),
                change={f"{one.name}.queue_size": 4 * one.first.loop["bound"]},
                then=f"{stage.name} (busy {stage.occupied:.0%})",
            )
    return None


def stragglers(case: Case) -> Finding | None:
    """Finds a node whose threads wait for a few slow calls, because rows keep their order."""
    for stage in sorted(case.stages, key=lambda one: -one.first.order):
        node, call = stage.first, stage.first.service
        if node.order < _MUCH_ORDER or call.count < _LEAST_CALLS:
            continue
        usual, slow = call.percentile(50), call.percentile(98)
        if slow < _SLOW * usual:
            slow = call.percentile(100)
        if usual <= 0 or slow < _SLOW * usual:
            continue
        return Finding(
            node.node,
            Cause.STRAGGLERS,
            f"its slowest calls take {slow / usual:.0f}x the median, and others wait for them",
            (
                f"its threads wait for the order {node.order:.0%} of the time",
                f"a call takes {usual * 1e3:.3g} ms, the slowest {slow * 1e3:.3g} ms",
            ),
            change={f"{node.node}.queue_size": max(4 * node.capacity, 4 * node.batch_size)},
        )
    return None


def small_queue(case: Case) -> Finding | None:
    """Finds a queue between two nodes whose speed varies, with room for too few rows."""
    stage = case.limiting
    if stage is None or stage.load >= _ENOUGH:
        return None
    pairs = [
        (before, behind)
        for before in case.stages
        for behind in case.stages
        if behind.name in before.feeds
        and before.first.blocked >= _BLOCKED
        and behind.first.starved >= _STARVED
        and behind.first.queue <= behind.first.capacity
    ]
    if not pairs:
        return None
    before, behind = max(pairs, key=lambda pair: pair[0].first.blocked + pair[1].first.starved)
    node = behind.first
    return Finding(
        node.node,
        Cause.SMALL_QUEUE,
        f"its queue of {node.capacity} rows does not even out the bursts of {before.name}",
        (
            f"{before.name} waits for room {before.first.blocked:.0%} of the time",
            f"{node.node} waits for rows {node.starved:.0%} of the time",
        ),
        change={f"{behind.name}.queue_size": max(_USUAL, 8 * node.capacity)},
    )


def queue_bounds_batch(case: Case) -> Finding | None:
    """Finds a queue that holds fewer rows than a batch may have."""
    for stage in sorted(case.stages, key=lambda one: -one.load):
        found = None if stage.is_source else _queue_of(case, stage)
        if found is not None:
            return found
    return None


def _queue_of(case: Case, stage: StageCase) -> Finding | None:
    node = stage.first
    if not 0 < node.capacity < node.batch_size or node.mean_batch_size < 0.5 * node.capacity:
        return None
    if stage.occupied < 0.5:
        return None
    line, gain = stage.service_time, None
    if line is not None and line.error <= 0.3:
        faster = line.rate(node.batch_size) / max(1e-9, line.rate(node.mean_batch_size))
        gain = max(0.0, min(faster, case.next_limit(stage)[0]) - 1.0)
    return Finding(
        stage.heaviest.node,
        Cause.QUEUE_BOUNDS_BATCH,
        f"a batch may have {node.batch_size} rows, and its queue holds {node.capacity}",
        (f"{node.mean_batch_size:.1f} rows a call",),
        change={f"{stage.name}.queue_size": 2 * node.batch_size},
        gain=gain,
        then=case.next_limit(stage)[1],
    )


BOUNDS = (front_end, rows_in_flight, loop_bound, queue_bounds_batch, stragglers, small_queue)
"""The rules for bounds outside a node's threads, in the order of their use."""
