"""A flow as clients see it: a model with a name and a version."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy.typing as npt

from modelflow.flow import Flow
from modelflow.graph.signature import signature_of
from modelflow.ipc.loop_queue import LoopQueue
from modelflow.runtime.clock import SYSTEM_CLOCK
from modelflow.serve.metrics.model_counts import ModelCounts
from modelflow.serve.options import ServeOptions
from modelflow.serve.requests.admission import Admission
from modelflow.serve.requests.infer_request import InferCall
from modelflow.serve.requests.model import NO_TERMS, Batching, Model, Terms
from modelflow.serve.requests.pending import PendingRequests, is_of_numbers
from modelflow.serve.requests.rows import hide_triggers, is_whole, items_of
from modelflow.serve.requests.submit_queue import SubmitQueue
from modelflow.wire.problem import Code

# Seconds for which a turn of the loop may go on before what is due beside it is done; much less
# takes gangs apart (benchmarks/serving_overload.py).
_TURN = 0.002


class ServedModel(Model):
    """A running flow that answers requests. For the server's thread.

    Attributes:
        triggers: What the graph gets of a request to a model without inputs.
        loop_queue: How other threads reach the server's.
        on_closed: Called when the flow has ended by itself: no request is answered any more.
        admission: Which requests it takes.
        figures: What has become of the others.
        flow: What answers.
        submit_queue: The way into that.
    """

    def __init__(
        self, name: str, version: int, flow: Flow, loop_queue: LoopQueue, options: ServeOptions
    ) -> None:
        """Takes a flow that runs; it stays the caller's to stop.

        Args:
            name: Its name.
            version: Its version.
            flow: What answers.
            loop_queue: How other threads reach the server's.
            options: What it takes; what is more is refused.
        """
        signature, self.triggers = hide_triggers(signature_of(flow.graph, flow.scheduler))
        super().__init__(name, version, signature, options)
        self.loop_queue = loop_queue
        self.flow = flow
        self.admission = Admission(name, options.max_requests, make_room=self._catch_up)
        self.figures = ModelCounts()
        self.on_closed: Callable[[], object] | None = None
        if flow.scheduler.is_row_by_row and is_of_numbers(signature):
            self.pending = PendingRequests(self)
        self.submit_queue = SubmitQueue(flow.scheduler, loop_queue, self.pending, self._on_close)
        self._on_idle: Callable[[], object] | None = None
        self._over: deque[Callable[[], None]] = deque()  # what ends those that are
        self._is_told = False  # and that is on its way
        self._caught_up = 0.0  # when it has last done what was due
        self._is_counted_soon = False

    def infer(
        self,
        arrays: Mapping[str, npt.NDArray[Any]],
        done: Callable[[InferCall], None],
        terms: Terms = NO_TERMS,
    ) -> InferCall:
        """Sends a request of arrays, one for each input; see `Model.infer`."""
        options = self.options
        for name, array in arrays.items():
            if array.size > options.max_tensor_elements:
                options.check_elements(array.size, f"input {name!r}")
            if array.ndim and len(array) > options.max_rows and self._is_batched(name):
                options.check_rows(len(array), f"input {name!r}")
        items = items_of(self.signature, arrays)
        call = self.send(items, done, terms)
        ports = self.signature.inputs
        call.is_without_axis = bool(ports) and all(is_whole(p, arrays[p.name]) for p in ports)
        return call

    def _is_batched(self, name: str) -> bool:
        return any(port.name == name and port.is_batched for port in self.signature.inputs)

    def send(
        self,
        items: Mapping[str, Sequence[Any]],
        done: Callable[[InferCall], None],
        terms: Terms = NO_TERMS,
    ) -> InferCall:
        """Sends a request of items of each input; see `Model.infer`.

        Raises:
            OverloadedError: there is no room for it.
        """
        deadline, request_context, is_stream = terms
        context = (
            None if request_context is None else request_context.enter(self.name, self.version)
        )
        # Made before it is counted: whoever sees it counted may reckon with its deadline.
        given = items or self.triggers
        call = InferCall(self, given, deadline, done, is_stream=is_stream, context=context)
        self.admission.admit(deadline)
        if request_context is not None:
            call.watch(request_context)
        limit = self.time_limit
        if deadline is None:  # as `TimeLimit.add`, without a call: most requests
            limit.until[call] = call.began + limit.seconds
            if limit.timer is None:
                limit.begin()
        else:
            limit.add(call, deadline)
        self.submit_queue.add(call)
        return call

    def on_done(self, code: Code | None = None) -> None:
        """Notes that a request is over that never went in: with a code, or as another one."""
        if code is not None:
            self.figures.on_failure(code)
        self.admission.on_done()
        self._tell_when_idle()

    @property
    def batching(self) -> Batching:
        """How it gathers items into calls."""
        return Batching.of(self.flow)

    def expect(self, deadline: float | None) -> None:
        """Refuses what `send` would refuse: before the request is read, which takes longer.

        Args:
            deadline: Seconds for which whoever sends it waits, as far as its head says it.

        Raises:
            OverloadedError: there is no room for it.
        """
        self.admission.expect(deadline)

    def _catch_up(self) -> None:
        """Does what is due where there is no room: a turn of the loop may bring many requests.

        Else room that answers have made meanwhile, and a model that has nothing to do while
        requests wait to go in, would be seen only behind them all.
        """
        now = SYSTEM_CLOCK.now()
        if now - self._caught_up >= _TURN:
            self.submit_queue.hurry()
            self.loop_queue.run()
            self._caught_up = now

    def forget(self, call: InferCall) -> None:
        """Ends a request whose caller has gone: what is queued for it is dropped."""
        if self.withdraw(call):
            self.time_limit.forget(call)
            self.on_done(Code.CANCELLED)
        else:
            call.request.cancel()

    def withdraw(self, call: InferCall) -> bool:
        """Takes a request back; False: the flow has it, or it is over."""
        return self.submit_queue.forget(call)

    def over(self, end: Callable[[], None]) -> None:
        """Has requests end on the server's thread, with one wake-up for many; from any thread.

        Args:
            end: What ends them; counts them out of those that are under way.
        """
        self._over.append(end)
        if not self._is_told:  # looked at behind the append; `_finish` clears it before it looks
            self._is_told = True
            self.loop_queue.post(self._finish)

    def _finish(self) -> None:
        """Ends the requests that are over."""
        self._is_told = False
        over = self._over
        while over:
            end = over.popleft()
            try:
                end()
            except Exception as error:  # noqa: BLE001 - of some; the others are told all the same
                context = {"message": f"{end!r} raised", "exception": error}
                asyncio.get_running_loop().call_exception_handler(context)
        self._count()
        self._tell_when_idle()

    def on_end(self) -> None:
        """Notes that a request is over; how fast that was, of those of one turn together."""
        self.on_done()
        if not self._is_counted_soon:
            self._is_counted_soon = True
            asyncio.get_running_loop().call_soon(self._count)

    def _count(self) -> None:
        self._is_counted_soon = False
        self.admission.on_answer(self.figures.count_newly_worked())

    def _on_close(self) -> None:
        if self.on_closed is not None:
            self.on_closed()

    def retire(self, on_idle: Callable[[], object]) -> None:
        """Has ``on_idle`` called, once, when no request is under way; none comes any more.

        Of none of its signatures.
        """
        self._on_idle = on_idle
        for other in self.others.values():
            other.retire(self._tell_when_idle)
        self._tell_when_idle()

    def _tell_when_idle(self) -> None:
        # Not in this turn of the loop: a request that has found this model may be making room now
        # (`_catch_up`), and is sent behind that.
        if self._on_idle is not None:
            asyncio.get_running_loop().call_soon(self._tell_if_idle)

    def _tell_if_idle(self) -> None:
        is_busy = any(one.admission.under_way for one in self.all_signatures())
        if self._on_idle is not None and not is_busy:
            on_idle, self._on_idle = self._on_idle, None
            on_idle()
