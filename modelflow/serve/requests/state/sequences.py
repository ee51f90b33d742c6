"""Sequences of requests: requests with one ``sequence_id`` are steps of one session of the graph.

The stream units of the graph keep the state of the sequence in that session, as they do for a
stream. The `Sequences` of a model own its open sessions. A session ends with the last request, or
after a time without a request. It also ends when its version is unloaded, or when a client begins
it again. With several replicas, the id of a sequence chooses the replica
(`processes/rpc/replica_peers.py`).
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from modelflow.serve.requests.infer_request import InferCall
from modelflow.serve.requests.model import Inference, SequenceStep
from modelflow.stream_io.steps import SteppedSession, StepRequest
from modelflow.unit.kind import Stream
from modelflow.wire.problem import Code, refuse, shorten

if TYPE_CHECKING:
    from modelflow.flow import Flow
    from modelflow.serve.requests.served_model import ServedModel


class SequenceCall(InferCall):
    """A request that is a step of a sequence. It has no deadline inside the graph.

    A row that a unit skips would leave the state behind. So only the client's wait is limited.
    """

    def __init__(
        self,
        model: "ServedModel",
        items: Mapping[str, Sequence[Any]],
        done: Callable[[Inference], None],
        name: int | str,
    ) -> None:
        """Creates a request of the sequence ``name``; see `InferCall`."""
        super().__init__(model, items, done)
        self._name = name
        self.step = StepRequest(items, self._over)
        """The step of the session."""
        self.request = self.step

    def _end(self) -> None:
        super()._end()
        self.model.sequences.on_end(self._name)


class Sequences:
    """The open sequences of a model. For the server's thread."""

    def __init__(self, model: "ServedModel") -> None:
        """Stores the model."""
        self._model = model
        self._open: dict[int | str, SteppedSession] = {}
        self._timers: dict[int | str, asyncio.TimerHandle] = {}

    def __len__(self) -> int:
        """Returns the number of open sequences."""
        return len(self._open)

    def check(self, step: SequenceStep) -> None:
        """Checks that a request belongs to an open sequence, or may begin a sequence.

        Raises:
            Problem: the sequence is not open, or too many are.
        """
        model, options = self._model, self._model.options
        found = self._open.get(step.id)
        if step.is_start:
            if found is None and len(self._open) >= options.max_sequences:
                refuse(
                    f"model {model.name!r} has {len(self._open)} open sequences, as many as it "
                    "may (--max-sequences); end one with sequence_end, or try again",
                    Code.RESOURCE_EXHAUSTED,
                )
        elif found is None or found.is_over:
            refuse(
                f"sequence {shorten(step.id)} of model {model.name!r} is not open; begin it with "
                "sequence_start. A sequence ends with sequence_end, after "
                f"{options.sequence_timeout:g} s without a request (--sequence-timeout), and with "
                "its version or its process"
            )

    def add(self, call: SequenceCall, step: SequenceStep, context: Mapping[str, Any]) -> None:
        """Appends a checked request to its sequence, or begins the sequence.

        Args:
            call: The request.
            step: The place of the request.
            context: First content of the dict that the session's units share, for the start.

        Raises:
            StreamClosed: the flow has ended.
        """
        if step.is_start:
            self._close(step.id)  # a client may begin an open sequence again
            model = self._model
            self._open[step.id] = SteppedSession(
                model.flow.scheduler,
                {**context, "sequence_id": step.id},
                model.loop_queue.post,
            )
        if (timer := self._timers.pop(step.id, None)) is not None:
            timer.cancel()
        session = self._open[step.id]
        if step.is_end:
            del self._open[step.id]
        session.add(call.step, is_last=step.is_end)

    def on_end(self, name: int | str) -> None:
        """Begins the time without a request if the last request of a sequence has ended."""
        session = self._open.get(name)
        if session is None or not session.is_idle or name in self._timers:
            return
        if session.is_over:
            del self._open[name]
            return
        seconds = self._model.options.sequence_timeout
        loop = asyncio.get_running_loop()
        self._timers[name] = loop.call_later(seconds, self._close, name)

    def close(self) -> None:
        """Ends all sequences after the requests that have arrived."""
        for name in [*self._open]:
            self._close(name)

    def _close(self, name: int | str) -> None:
        session, timer = self._open.pop(name, None), self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()
        if session is not None:
            session.close()


def explain_refusal(flow: "Flow") -> str:
    """Returns the reason why a running flow takes no sequences, or ``""``."""
    if not any(isinstance(node.kind, Stream) for node in flow.graph.nodes.values()):
        return "the graph has no unit that keeps state (a stream unit)"
    several = sorted(set(flow.graph.outputs) - set(flow.scheduler.single_outputs))
    if several:
        return (
            f"output {several[0]!r} may have any number of results for a row; declare its stream "
            "unit with kind=modelflow.Stream(modelflow.Count.SAME)"
        )
    return ""
