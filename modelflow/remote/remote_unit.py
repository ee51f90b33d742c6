"""The remote node: a normal unit that sends its batches to replicas.

Batches of a lost replica are sent again (``retries``), and so every row has a result. The second
try sends a batch as the only one in its replica; no batch is then blamed for another. The last try
sends row by row; no row is then blamed for another. A row that lost its replica each time is in
error.
"""

import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from modelflow.buffer import Buffer
from modelflow.errors import EndFlow, FlowUnitError, NoReplicaError, ReplicaLostError
from modelflow.ipc.cause import Cause
from modelflow.plan.partition import Partition, ports_of
from modelflow.remote.message import Column, Fault, Rows, buffers_of, fault_of, rows_of
from modelflow.remote.pool import Pool, User
from modelflow.remote.replica import NotSendableError, PartEndedError
from modelflow.runtime.clock import SYSTEM_CLOCK
from modelflow.runtime.session.watcher import Watcher
from modelflow.runtime.stats import NodeStats
from modelflow.unit.kind import Normal
from modelflow.unit.spec import FlowUnitSpec
from modelflow.unit.unit import Context, FlowUnit

Watchers = Sequence[Watcher | None]

UNIT = "remote"
# Seconds that a reader of statistics waits for the reports of replicas.
_TELLING = 0.1
_LATE = "its deadline passed before a replica had room"


def remote_spec(partition: Partition, pool: Pool) -> FlowUnitSpec:
    """Returns the specification of the remote node for a partition."""
    inputs, outputs = ports_of(partition)
    names = tuple(port.name for port in outputs)
    return FlowUnitSpec(
        name=UNIT,
        devices={"cpu": lambda: RemoteUnit(partition.name, names, pool, partition.least_rows)},
        inputs=inputs,
        outputs=outputs,
        description=f"{', '.join(partition.nodes)} on {partition.placement.name!r}",
        is_shared=True,
        is_exception_visible=True,  # if the settings of the node say so
        kind=Normal(is_batch_retried=False),
        is_type_checked=False,
        inherits_meta=False,  # the part has set the meta
    )


class RemoteUnit(FlowUnit):
    """A flow unit that sends batches to the replicas of a pool, and emits their answers."""

    is_telling = True

    def __init__(self, node: str, outputs: Sequence[str], pool: Pool, least: int = 1) -> None:
        """Stores the pool; starts no replica.

        Args:
            node: The name of the remote node, which is also the name of the part.
            outputs: The outputs of the part.
            pool: The replicas of the part.
            least: The least number of rows that are sent together, if as many are waiting.
        """
        self._node = node
        self._outputs = tuple(outputs)
        self._pool = pool
        self._least = least
        self._user: User | None = None
        self._lock = threading.Lock()  # `interrupt` is called by another thread
        self._is_interrupted = False

    def open(self, config: Any) -> None:  # noqa: ARG002
        """Joins the pool, which starts its replicas if needed, and waits until they are ready.

        Raises:
            NoReplicaError: A replica did not start, or the flow ends.
        """
        user = self._pool.join(self._node)
        with self._lock:
            self._user = user
            is_interrupted = self._is_interrupted
        try:
            if is_interrupted:
                self._pool.abort(user)
            self._pool.wait(user)
        except BaseException:
            self._pool.leave(user)
            raise

    def close(self) -> None:
        """Leaves the pool, which ends its replicas after the last user."""
        assert self._user is not None  # `open` was called
        self._pool.leave(self._user)

    def interrupt(self) -> None:
        """Stops waiting for answers; busy replicas without other users are killed."""
        with self._lock:
            self._is_interrupted = True
            user = self._user
        if user is not None:
            self._pool.abort(user)

    def figures(self) -> dict[str, dict[str, int]]:
        """Returns the numbers of replicas that are ready, starting and lost."""
        seen = self._pool.figures()
        states = {"ready": seen.replicas, "starting": seen.starting, "lost": seen.lost}
        return {"replicas": states}

    def elsewhere(self) -> dict[str, dict[str, NodeStats]]:
        """Returns the statistics of the replicas that report at once; see `Pool.reports`."""
        return {} if self._user is None else self._pool.reports(self._user, _TELLING)

    def most_rows(self) -> int:
        """Returns the number of rows to send together; see `Pool.rows_at_once`."""
        return max(self._least, self._pool.rows_at_once(self._node))

    def process(self, ctx: Context) -> None:
        """Sends a batch to a replica, and emits a result for every row."""
        now = SYSTEM_CLOCK.now()
        watchers = ctx.watchers
        watched = tuple(place for place, watcher in enumerate(watchers) if watcher is not None)
        rows = replace(rows_of(self._node, ctx.inputs, now), watched=watched)
        known = [_errors_of(row) for row in zip(*ctx.inputs.values(), strict=True)]
        found = self._request(rows, now, watchers, self._pool.placement.retries)
        for port, (data, metas) in found.items():
            for place, errors in enumerate(known):
                fault = data[place]
                if errors and isinstance(fault, Fault):  # an error that only passed through
                    data[place] = errors.get(fault, fault)
            ctx.emit(buffers_of((data, metas)), port)

    def _request(
        self,
        rows: Rows,
        begun: float,
        watchers: Watchers,
        retries: int,
        before: Sequence[str] = (),
    ) -> Mapping[str, Column]:
        """Sends rows with retries; ``before`` are the losses of earlier tries with these rows."""
        losses = list(before)
        for attempt in range(retries + 1):
            if attempt == retries > 0 and len(rows) > 1:
                return self._one_by_one(rows, begun, watchers, losses)
            try:
                return self._call(rows, begun, watchers, is_alone=bool(losses))
            except ReplicaLostError as loss:
                losses.append(str(loss))
            except NoReplicaError as refusal:
                return self._without(rows, refusal, begun)
            except NotSendableError as error:
                if len(rows) > 1:
                    return self._one_by_one(rows, begun, watchers, losses)
                return self._without(rows, error, phase="transfer")
        return self._without(rows, _make_lost_error(losses))

    def _one_by_one(
        self, rows: Rows, begun: float, watchers: Watchers, losses: Sequence[str]
    ) -> Mapping[str, Column]:
        """Sends each row alone, which shows the rows that cause a loss."""
        found: dict[str, Column] = {output: ([], []) for output in self._outputs}
        for place in range(len(rows)):
            columns = self._request(rows.row(place), begun, watchers[place:], 0, losses)
            for output, (data, metas) in columns.items():
                found[output][0].extend(data)
                found[output][1].extend(metas)
        return found

    def _call(
        self, rows: Rows, begun: float, watchers: Watchers, *, is_alone: bool
    ) -> Mapping[str, Column]:
        passed = SYSTEM_CLOCK.now() - begun
        remaining = [None if left is None else max(0.0, left - passed) for left in rows.remaining]
        known = [left for left in remaining if left is not None]
        # After the last deadline no row needs a replica.
        patience = max(known) if len(known) == len(remaining) else None
        assert self._user is not None  # `open` was called
        try:
            rows = replace(rows, remaining=remaining)
            answers = self._pool.call(self._user, rows, is_alone=is_alone, patience=patience)
        except PartEndedError as end:
            raise EndFlow(str(end)) from end
        come = SYSTEM_CLOCK.now() - answers.seconds  # ignores the time of the transfer back
        for row, call, fault in answers.done:
            if (watcher := watchers[row]) is not None:
                error = None if fault is None else fault.error()
                begun, ended = come + call.start, come + call.end
                watcher.on_call(call._replace(start=begun, end=ended, error=error))
        return answers.columns

    def _without(
        self, rows: Rows, reason: Exception, begun: float | None = None, phase: str = "lost"
    ) -> dict[str, Column]:
        """Returns rows in error, with the meta of the first input.

        Args:
            rows: The rows.
            reason: The reason why the rows have no result.
            begun: The time of the first try. Rows with a deadline since then are late.
            phase: The phase of the failure.
        """
        _, metas = next(iter(rows.columns.values()))
        passed = -math.inf if begun is None else SYSTEM_CLOCK.now() - begun
        fault = Fault(str(reason), self._node, UNIT, phase, cause=Cause.of(reason))
        faults = [
            Fault(_LATE, self._node, UNIT, "wait", is_late=True)
            if left is not None and left <= passed
            else fault
            for left in rows.remaining
        ]
        return {output: (list(faults), list(metas)) for output in self._outputs}


def _errors_of(row: Sequence[Buffer]) -> dict[Fault, FlowUnitError]:
    """Returns the errors in the inputs of a row, by their portable form."""
    return {fault_of(buffer.error): buffer.error for buffer in row if buffer.error is not None}


def _make_lost_error(losses: Sequence[str]) -> ReplicaLostError:
    last = losses[-1]
    if len(losses) == 1:
        message = f"{last}; the row may have been processed, and is not sent again (retries=0)"
        return ReplicaLostError(message)
    message = (
        f"its replica was lost {len(losses)} times while processing this row (the last: {last})"
    )
    return ReplicaLostError(message)
