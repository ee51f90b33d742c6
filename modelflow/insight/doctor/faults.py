"""Faults of a single node or output, independent of the limit of the flow; pure rules.

Each rule takes a `Case` and yields its findings, the worst first.
"""

from collections.abc import Iterator

from modelflow.insight.doctor.case import Case
from modelflow.insight.doctor.finding import Cause, Finding

# Shares above which a rule reports a finding.
_MUCH_FAILED = 0.05
_MUCH_PADDING = 0.3
_MUCH_COPYING = 0.2
_MUCH_CUT = 0.3
_MUCH_WORK = 0.5
_MUCH_COLLECTING = 0.15
_LEAST_ROWS = _LEAST_CALLS = 20
_AT_WORK = 0.75
# Below this share a node has time left, and wasted time costs nothing.
_BUSY = 0.25


def errors(case: Case) -> Iterator[Finding]:
    """Yields nodes in which more than 5 % of the rows fail."""
    found = []
    for node in case.interval.nodes:
        rows = node.rows_per_second * case.interval.seconds
        if rows >= _LEAST_ROWS and node.errors > _MUCH_FAILED * rows:
            kinds = ", ".join(f"{count} {name}" for name, count in node.failures.items())
            finding = Finding(
                node.node,
                Cause.ERRORS,
                f"{node.errors / rows:.0%} of its rows fail",
                (f"{node.errors} of {rows:.0f} rows failed: {kinds or 'of unknown type'}",),
                advice="the error of each row says what was wrong with it: `Buffer.error`, the log",
            )
            found.append((node.errors, finding))
    yield from (finding for _, finding in sorted(found, key=lambda one: -one[0]))


def unread_results(case: Case) -> Iterator[Finding]:
    """Yields outputs whose results are not read, which blocks the sender."""
    interval = case.interval
    bound = interval.unread_bound * max(1, interval.in_flight)
    if not bound or _is_at_work(case):
        return
    busiest = max((stage.busy for stage in case.stages), default=0.0)
    for output, count in sorted(interval.unread.items(), key=lambda one: -one[1]):
        if count >= 0.5 * bound:
            yield Finding(
                output,
                Cause.UNREAD_RESULTS,
                f"the results of output {output!r} are not read, and the sender waits for that",
                (
                    f"{count} results are unread; the sender waits at {bound}",
                    f"no node is busy more than {busiest:.0%}",
                ),
                advice=f"read output {output!r} as well, or send no more than is read",
            )


def batch_timeouts(case: Case) -> Iterator[Finding]:
    """Yields nodes whose rows wait for a fuller batch most of the time, without success."""
    if _is_at_work(case):
        return
    for stage in case.stages:
        node, waits = stage.first, stage.first.batch_timeout
        closed = sum(node.closed.values())
        late = node.closed.get("timeout", 0)
        if not waits or late < 0.5 * closed or closed < 5 or not node.wait.count:
            continue
        wait, call = node.wait.percentile(50), node.service.percentile(50)
        if wait < 0.5 * waits or wait < call:
            continue
        yield Finding(
            node.node,
            Cause.BATCH_TIMEOUT,
            f"its rows wait {wait * 1e3:.3g} ms for a fuller batch, without success",
            (
                f"{late / closed:.0%} of its batches are closed by the time-out of "
                f"{waits * 1e3:g} ms, with {node.mean_batch_size:.1f} of {node.batch_size} rows",
                f"a call takes {call * 1e3:.3g} ms",
            ),
            change={f"{node.node}.batch_timeout_ms": 0},
            then=f"latency falls by about {wait * 1e3:.3g} ms",
        )


def padding(case: Case) -> Iterator[Finding]:
    """Yields nodes in which more than 30 % of the computed rows are padding."""
    for node in case.interval.nodes:
        rows = node.rows_per_second * case.interval.seconds
        whole = rows + node.padding
        if rows < _LEAST_ROWS or node.padding <= _MUCH_PADDING * whole or node.busy < _BUSY:
            continue
        smaller = [1 << power for power in range((node.batch_size - 1).bit_length())]
        sizes = [*smaller, node.batch_size]
        yield Finding(
            node.node,
            Cause.PADDING,
            f"{node.padding / whole:.0%} of the rows that it computes are padding",
            (
                f"{node.padding} rows of padding to {rows:.0f} rows",
                f"{node.mean_batch_size:.1f} rows a call",
            ),
            change={f"{node.node}.allowed_batch_sizes": ",".join(map(str, sizes))},
        )


def copies(case: Case) -> Iterator[Finding]:
    """Yields nodes that spend more than 20 % of their time on copies between devices."""
    for stage in case.stages:
        node = stage.first
        if node.busy > _BUSY and node.moving > _MUCH_COPYING:
            before = [other.name for other in case.stages if node.node in other.feeds]
            behind = [name for name in stage.feeds if name != "-"]
            neighbours = " or ".join([*before, *behind]) or "its neighbours"
            yield Finding(
                node.node,
                Cause.COPIES,
                f"{node.moving:.0%} of its time are copies between devices",
                (f"it runs on {stage.device}",),
                advice=f"let {neighbours} run on the same device as {node.node}",
            )


def uneven_shapes(case: Case) -> Iterator[Finding]:
    """Yields models whose batches are cut because the shapes of their rows differ."""
    for node in case.interval.nodes:
        batches = sum(count for size, (count, _) in node.calls.items() if size)
        if batches < _LEAST_CALLS or node.cuts < _MUCH_CUT * batches or node.busy < 0.5:
            continue
        rows = sum(size * count for size, (count, _) in node.calls.items())
        yield Finding(
            node.node,
            Cause.UNEVEN_SHAPES,
            "its rows differ in shape, and a call of the model takes rows of one shape",
            (
                f"{batches} batches became {batches + node.cuts} calls of the model",
                f"{rows / (batches + node.cuts):.1f} rows a call instead of {rows / batches:.1f}",
            ),
            advice="give all rows one shape before it: resize, pad or letterbox",
        )


def transfers(case: Case) -> Iterator[Finding]:
    """Yields nodes in processes for whose rows the transfer takes longer than the work."""
    for stage in case.stages:
        node = stage.first
        spent = node.busy * node.threads * case.interval.seconds
        if not node.process_calls or spent <= 0 or stage.busy < 0.5:
            continue
        part = min(1.0, node.process_seconds / spent)
        if part >= _MUCH_WORK:
            continue
        call = node.service.mean
        limit, name = case.next_limit(stage)
        faster = 1.0 / max(part, 1e-3)
        if case.has_lock:  # the calls may run one at a time
            faster = max(1.0, faster / node.threads)
        yield Finding(
            node.node,
            Cause.TRANSFER,
            f"{1 - part:.0%} of its time is the transfer to its process and back",
            (f"a call takes {call * 1e3:.3g} ms, of it {part * call * 1e3:.3g} ms in the unit",),
            change={f"{stage.name}.workers": "thread"},
            gain=max(0.0, 0.5 * (min(limit, faster) - 1.0)) or None,
            then=name,
        )


def collections(case: Case) -> Iterator[Finding]:
    """Yields the busiest node if Python's garbage collector takes much of the time."""
    stage = case.limiting
    if stage is None or case.collecting < _MUCH_COLLECTING:
        return
    yield Finding(
        stage.heaviest.node,
        Cause.GARBAGE_COLLECTION,
        f"garbage collections stop all threads {case.collecting:.0%} of the time",
        (f"busy {stage.occupied:.0%}",),
        advice="call gc.freeze() once everything is loaded, raise gc.set_threshold, or make fewer "
        "objects that hold each other",
    )


def _is_at_work(case: Case) -> bool:
    """Returns whether a node is at full load."""
    return any(
        stage.occupied >= _AT_WORK and not stage.is_source and stage.first.queue
        for stage in case.stages
    )


FAULTS = (errors, unread_results, batch_timeouts)
"""The rules for faults that matter under any load, in the order of their use."""

WASTES = (transfers, collections, padding, uneven_shapes, copies)
"""The rules for time that a busy node wastes, in the order of their use."""
