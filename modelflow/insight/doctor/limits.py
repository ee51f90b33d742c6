"""The rules for the limit of a flow's rate; pure functions, in the order of their use.

Each rule looks at the stage with the greatest load, and returns a `Finding` or None. The first
finding counts. Later rules rely on the earlier ones having found nothing.
"""

import math
from typing import Any

from modelflow.insight.doctor.case import Case, StageCase
from modelflow.insight.doctor.finding import Cause, Confidence, Finding

# A source limits the flow if its threads are at work for at least this share of the time.
_AT_WORK = 0.75
# Seconds of waiting for the interpreter lock that show several computing threads. The switch
# interval of the interpreter is 5 ms.
_CONTENDED = 0.002
# Processors that a call wants on average, above which it is no mere waiter.
_WANTED = 0.25
_MUCH_WAITING = 0.3
_MUCH_RUNNABLE = 0.25
_MUCH_SHORT = 0.2
_FREE = 0.3
_MUCH_ENGINE = 0.1
# The largest batch size that is suggested, and the least gain for which a change is suggested.
_LARGEST_BATCH = 64
_WORTH = 0.1


def interpreter_lock(case: Case, stage: StageCase) -> Finding | None:
    """Finds threads that wait while the interpreter lock is contended.

    The finding names the stage that computes the most, because it holds the lock. The waiting stage
    is only its victim.
    """
    workers = sum(one.threads for one in case.stages if one.occupied > 0.5)
    if workers < 2 or stage.first.waiting < _MUCH_WAITING:
        return None
    return python_code(case)


def python_code(case: Case, *, is_mobile: bool = True) -> Finding | None:
    """Returns the finding for the stage that holds a contended interpreter lock the most, or None.

    Args:
        case: The flow.
        is_mobile: Whether the units of this stage may run with ``workers=process``.
    """
    late = case.lock_wait
    if late is None or late < _CONTENDED or not case.has_lock:
        return None
    worst = case.busiest_in_python
    node, threads = worst.first, max(worst.threads, min(2 * worst.threads, case.processors))
    # At most one processor for each process. The transfer there and back costs time (0.6).
    most = min(float(threads), case.processors - (case.foreign or 0.0)) / max(0.5, worst.cores)
    changes: dict[str, Any] = {f"{worst.name}.workers": "process"}
    if threads > worst.threads:
        changes[f"{worst.name}.threads"] = threads
    return Finding(
        worst.heaviest.node,
        Cause.INTERPRETER_LOCK,
        "it computes in Python, where only one thread at a time can run",
        (
            f"of the time in its calls {node.running:.0%} is spent on a processor, "
            f"{node.waiting:.0%} waiting",
            f"a thread that wants the interpreter gets it after {late * 1e3:.2g} ms",
        ),
        change=changes if is_mobile else {},
        advice="have the unit call code that releases the lock (NumPy, OpenCV, an engine)",
        gain=max(0.0, 0.6 * (most - 1.0)) if is_mobile else None,
    )


def foreign_load(case: Case, stage: StageCase | None) -> Finding | None:
    """Finds other programs that use the processors which the flow needs.

    Args:
        case: The flow.
        stage: The stage with the greatest load, if it is known.
    """
    if not case.has_foreign_load or stage is None:
        return None
    node = stage.first
    is_short = case.used >= case.processors - 2 * _FREE
    wants = node.running + node.runnable >= _WANTED
    short = max(one.first.runnable for one in case.stages if one is stage or one.occupied > 0.5)
    if max(short, case.front_end_runnable) < _MUCH_SHORT and not (is_short and wants):
        return None  # it waits for other things, and has the processors that it needs
    return Finding(
        stage.heaviest.node,
        Cause.FOREIGN_LOAD,
        "other programs have the processors that it wants, so its own limit cannot be told",
        (
            f"others use {case.foreign or 0.0:.1f} of {case.processors} processors, this flow "
            f"{case.cores or 0.0:.1f}",
            f"for {node.runnable:.0%} of the time in its calls its threads could have run and had "
            "no processor",
        ),
        advice="end them, or give the flow its own processors, and look again",
        confidence=Confidence.HIGH,
    )


def oversubscription(case: Case, stage: StageCase) -> Finding | None:
    """Finds a stage with more computing threads than processors."""
    node = stage.first
    own = 1.0 - case.processors / stage.threads  # the share that the threads take from each other
    is_own = _MUCH_RUNNABLE <= node.runnable <= own + _MUCH_RUNNABLE
    if not is_own or stage.threads <= case.processors:
        return None
    return Finding(
        stage.heaviest.node,
        Cause.OVERSUBSCRIPTION,
        f"it has {stage.threads} threads that compute, and there are {case.processors} processors",
        (
            f"for {node.runnable:.0%} of the time in its calls its threads could have run and had "
            "no processor",
        ),
        change={f"{stage.name}.threads": case.processors},
        gain=0.0,
        then=f"the {case.processors} processors",
    )


def small_batch(case: Case, stage: StageCase) -> Finding | None:
    """Finds full batches where larger batches would take less time per row."""
    node, line = stage.first, stage.service_time
    if line is None or line.error > 0.3 or node.mean_batch_size < 0.8 * node.batch_size:
        return None
    if len(stage.nodes) > 1:
        return None
    limit, name = case.next_limit(stage)
    now = line.rate(node.mean_batch_size)
    size = node.batch_size
    while size < _LARGEST_BATCH and line.rate(2 * size) > (1 + _WORTH) * line.rate(size):
        size *= 2
        if line.rate(size) / now >= limit:
            break
    gain = min(line.rate(size) / now, limit) - 1.0
    if size == node.batch_size or gain < _WORTH:
        return None
    sizes = (f"at {n} it gives {line.rate(n):.0f} rows/s" for n in (node.batch_size, size))
    change = {f"{stage.name}.batch_size": size}
    if node.capacity < 2 * size:
        change[f"{stage.name}.queue_size"] = 2 * size
    return Finding(
        node.node,
        Cause.SMALL_BATCH,
        f"its batches of {node.batch_size} are full, and larger ones would cost less a row",
        (f"{node.mean_batch_size:.1f} rows a call", f"{line}: {', '.join(sizes)}"),
        change=change,
        gain=gain,
        then=name,
    )


def one_stream(case: Case, stage: StageCase) -> Finding | None:
    """Finds a stage with no more streams than threads, where more threads would be idle."""
    streams = case.interval.in_flight + sum(one.is_source for one in case.stages)
    if not stage.is_stream or streams > stage.threads:
        return None
    return Finding(
        stage.heaviest.node,
        Cause.ONE_STREAM,
        "it is always at work, and the rows of a stream go through it one after the other",
        (*_work(stage), f"streams under way: {streams}, its threads: {stage.threads}"),
        advice="several streams at once, with a thread for each, or less work a row",
    )


def capacity(case: Case, stage: StageCase) -> Finding | None:
    """Finds threads that are always at work while more of them could help.

    Stages with nearly the same load get more threads as well. Otherwise they would limit the rate
    at once, and the change would gain nothing. Whether calls that wait get faster by more threads
    is open: a device, a lock or a connection serves one call at a time.
    """
    equals = case.equals(stage, _WORTH)
    limit, name = case.next_limit(stage, equals)
    free = case.processors - case.used
    computing = sum(one.is_computing for one in equals)
    if (computing and free < _FREE) or _is_crowded(case, stage):
        return None
    changes, faster = {}, math.inf
    for one in equals:
        if one.is_computing:
            more, reached = max(1, round(free / computing)), free / computing
        else:
            more = max(1, math.ceil(one.threads * (min(limit, 4.0) - 1.0)))
            reached = more
        changes[f"{one.name}.threads"] = one.threads + more
        faster = min(faster, (one.threads + reached) / one.threads)
    gain = min(faster, limit) - 1.0
    if gain < _WORTH:
        return None
    is_open = not stage.is_computing or (case.lock_wait is None and case.has_lock)
    other = Cause.INTERPRETER_LOCK if stage.is_computing else Cause.ONE_AT_A_TIME
    return Finding(
        stage.heaviest.node,
        Cause.CAPACITY,
        "its threads are always at work, and the others wait for it",
        _work(stage),
        change=changes,
        gain=None if is_open else gain,
        then=name,
        confidence=Confidence.LOW if is_open else Confidence.MEDIUM,
        second=f"{other}: then more threads gain nothing; try them to know" if is_open else "",
    )


def processors(case: Case, stage: StageCase) -> Finding | None:
    """Finds that every processor is in use by this flow, when only less work helps."""
    used = case.cores or 0.0
    told = f"the flow uses {used:.1f} of {case.processors} processors, most of it this node"
    if used < case.processors - 2 * _FREE or stage.wanted < _WANTED:
        if not _is_crowded(case, stage):
            return None
        told = f"it could run more often than the {case.processors} processors let it"
    return Finding(
        stage.heaviest.node,
        Cause.PROCESSORS,
        "there is no processor left for it",
        (*_work(stage), told),
        advice="make the node cheaper, move it to another device, or take a larger machine",
        gain=0.0,
    )


def one_at_a_time(stage: StageCase) -> Finding:
    """Returns the finding for a stage that more threads and larger batches were tried for."""
    return Finding(
        stage.heaviest.node,
        Cause.ONE_AT_A_TIME,
        "its calls wait for something that serves one call at a time",
        _work(stage),
        advice="shorten its calls, or let it use several of it: devices, connections, locks",
    )


def _is_crowded(case: Case, stage: StageCase) -> bool:
    """Returns whether the threads could run but have no processor, when more threads gain nothing.

    One processor may be idle all the same, because hand-overs between threads leave gaps.
    """
    return stage.first.runnable >= _MUCH_RUNNABLE and case.used >= case.processors - 1.0


def slow_input(case: Case) -> Finding | None:
    """Finds a source that computes all the time, or senders that bring too little.

    A source that waits in its calls may be a camera, and its pace is then no fault.
    """
    sources = [stage for stage in case.stages if stage.is_source]
    slow = max(sources, key=lambda stage: stage.occupied, default=None)
    evidence = tuple(
        f"{stage.name} has nothing to do {stage.first.starved:.0%} of the time"
        for stage in case.stages
        if not stage.is_source
    )[:3]
    rate = 0.0 if slow is None else slow.first.rows_per_second
    if slow is not None and slow.occupied >= _AT_WORK and slow.is_computing and rate > 0:
        return Finding(
            slow.name,
            Cause.SLOW_INPUT,
            f"it brings {rate:.1f} rows a second, and all behind it wait for more",
            (f"it is busy {slow.busy:.0%} of the time", *evidence),
            advice="several such sources side by side, or a source that reads ahead",
        )
    if slow is None and case.is_driven and case.interval.nodes:
        return Finding(
            "input",
            Cause.SLOW_INPUT,
            "the nodes wait for requests",
            evidence,
            advice="send from several threads, or more at once",
        )
    return None


def _work(stage: StageCase) -> tuple[str, ...]:
    node = stage.first
    found = [f"busy {stage.busy:.0%}"]
    if node.capacity:
        found.append(f"{node.queue} rows wait, of {node.capacity}")
    if node.running or node.waiting:
        found.append(
            f"of the time in its calls {node.running:.0%} on a processor, {node.waiting:.0%} "
            f"waiting, {node.runnable:.0%} without a processor"
        )
    if stage.engine >= _MUCH_ENGINE:
        found.append(f"threads of its engine use {stage.engine:.1f} processors meanwhile")
    return tuple(found)


LIMITS = (
    interpreter_lock,
    oversubscription,
    small_batch,
    one_stream,
    capacity,
    processors,
)
"""The rules for a stage that is always at work, in the order of their use."""


def find_stage_limit(case: Case, stage: StageCase) -> Finding | None:
    """Returns the finding of the first rule that fits a stage at work, or None."""
    return next((one for rule in LIMITS if (one := rule(case, stage)) is not None), None)
