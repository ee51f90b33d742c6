"""The far node of a graph whose items go one after another: a session of it through one replica.

What was sent is put into a session there (`PartSession`), and whatever has come out of it meanwhile
comes back; so nothing waits for an answer of its own. A replica that is lost has taken the state of
the session with it: the rest of it is in error.
"""

import contextlib
import uuid
from dataclasses import replace

from modelflow.errors import NoReplicaError, ReplicaLostError
from modelflow.plan.placement import Partition, ports_of
from modelflow.remote.message import Answers, buffers_of, rows_of
from modelflow.remote.part_session import DROPPED
from modelflow.remote.pool import Pool
from modelflow.remote.remote_unit import UNIT, RemoteUnit
from modelflow.runtime.clock import SYSTEM_CLOCK
from modelflow.unit.kind import Kind
from modelflow.unit.port import Port
from modelflow.unit.spec import FlowUnitSpec
from modelflow.unit.unit import Context

__all__ = ["RemoteSession", "session_spec"]


def session_spec(partition: Partition, pool: Pool) -> FlowUnitSpec:
    """Returns the unit of the far node of such a graph: a source, where the graph has no input."""
    inputs, outputs = ports_of(partition)
    return FlowUnitSpec(
        name=UNIT,
        devices={"cpu": lambda: RemoteSession(partition.name, (), pool)},
        inputs=inputs,
        outputs=(*outputs, Port(DROPPED)),
        kind=Kind.STREAM if inputs else Kind.NORMAL,
        description=f"{', '.join(partition.nodes)} on {partition.placement.name!r}",
        is_shared=True,
        is_exception_visible=True,
        is_batch_retried=False,
        is_type_checked=False,
        inherits_meta=False,
    )


class RemoteSession(RemoteUnit):
    """Puts what comes into a session of a replica, and gives what has come out of it.

    While something comes out it sends itself events, so that it is asked again without a row, and
    rests while nobody reads what it gives.
    """

    def process(self, ctx: Context) -> None:
        """Puts rows in; gives what has come out."""
        answers = self._exchange(ctx)
        if not ctx.inputs:
            if answers.is_over:
                ctx.finish()
        elif ctx.event is None or any(data for data, _ in answers.columns.values()):
            ctx.send_event()

    def stream_end(self, ctx: Context) -> None:
        """Closes the session, and gives the rest."""
        if ctx.is_cancelled:
            with contextlib.suppress(ReplicaLostError, NoReplicaError):  # and the session with it
                self._exchange(ctx)
            return
        while not self._exchange(ctx, is_last=True).is_over:
            pass

    def _exchange(self, ctx: Context, *, is_last: bool = False) -> Answers:
        """Gives what has come out.

        Raises:
            ReplicaLostError: the replica was lost, and with it what the session was.
        """
        is_first = "session" not in ctx.state
        session = ctx.state.setdefault("session", uuid.uuid4().hex)
        rows = rows_of(self._node, ctx.inputs, SYSTEM_CLOCK.now())
        rows = replace(
            rows,
            session=session,
            is_first=is_first,
            is_last=is_last,
            is_cancelled=ctx.is_cancelled,
        )
        assert self._user is not None  # it was opened
        answers = self._pool.call(self._user, rows)
        for port, column in answers.columns.items():
            ctx.emit(buffers_of(column), port)
        return answers
