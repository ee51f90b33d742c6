"""The model that clients see for a flow, with a name and a version."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy.typing as npt

from modelflow.errors import StreamClosed
from modelflow.flow import Flow
from modelflow.graph.signature import signature_of
from modelflow.ipc.loop_queue import LoopQueue
from modelflow.runtime.clock import SYSTEM_CLOCK
from modelflow.serve.metrics.model_counts import ModelCounts
from modelflow.serve.options import ServeOptions
from modelflow.serve.requests.admission import Admission
from modelflow.serve.requests.infer_request import InferCall
from modelflow.serve.requests.model import (
    NO_TERMS,
    SHADOW,
    Batching,
    Inference,
    Model,
    SequenceStep,
    Terms,
)
from modelflow.serve.requests.pending import PendingRequests, is_of_numbers
from modelflow.serve.requests.rows import hide_triggers, is_whole, items_of
from modelflow.serve.requests.state.input_hash import hash_inputs
from modelflow.serve.requests.state.response_cache import CachedCall, ResponseCache
from modelflow.serve.requests.state.sequences import SequenceCall, Sequences, explain_refusal
from modelflow.serve.requests.status import problem_of
from modelflow.serve.requests.submit_queue import SubmitQueue
from modelflow.wire.problem import Code, Problem

# Seconds for which a turn of the event loop may go on before `_catch_up` does the pending work.
# A much smaller value splits request batches (benchmarks/serving_overload.py).
_TURN = 0.002


class ServedModel(Model):
    """A running flow that answers requests. For the server's thread.

    Attributes:
        triggers: The items that the graph gets for a request to a model without inputs.
        loop_queue: Passes calls from other threads to the server's thread.
        on_closed: Called when the flow has ended by itself and answers no more requests.
        admission: Admits or refuses requests.
        figures: The counts of finished requests.
        shadows: The counts of finished copies, for which the version is a shadow.
        flow: The flow that answers the requests.
        submit_queue: The queue of requests for the flow.
        sequences: The open sequences of requests.
        cache: The stored answers. None without a cache.
        find_owner: Returns the model of the process that has a sequence, or None for this process.
    """

    def __init__(
        self, name: str, version: int, flow: Flow, loop_queue: LoopQueue, options: ServeOptions
    ) -> None:
        """Wraps a running flow. The caller remains responsible for stopping the flow.

        Args:
            name: The model's name.
            version: The version number.
            flow: The flow that answers the requests.
            loop_queue: Passes calls from other threads to the server's thread.
            options: The limits on requests. The model refuses a request beyond a limit.
        """
        signature, self.triggers = hide_triggers(signature_of(flow.graph, flow.scheduler))
        super().__init__(name, version, signature, options)
        self.parameters = flow.graph.config.serve.parameters
        self.sequence_refusal = explain_refusal(flow)
        self.sequences = Sequences(self)
        self.find_owner: Callable[[Model, int | str], Model | None] = _own
        self.loop_queue = loop_queue
        self.flow = flow
        self.admission = Admission(name, options.max_requests, make_room=self._catch_up)
        self.figures = ModelCounts()
        self.shadows = ModelCounts()
        self.on_closed: Callable[[], object] | None = None
        size = options.cache_of(name) or flow.graph.config.serve.cache
        self.cache = ResponseCache(size) if size else None
        if flow.scheduler.is_row_by_row and is_of_numbers(signature):
            self.pending = PendingRequests(self)
        self.submit_queue = SubmitQueue(flow.scheduler, loop_queue, self.pending, self._on_close)
        self._on_idle: Callable[[], object] | None = None
        self._over: deque[Callable[[], None]] = deque()  # callbacks that end finished requests
        self._is_told = False  # `_finish` is posted
        self._caught_up = 0.0  # the time of the last `_catch_up`
        self._is_counted_soon = False

    def infer(
        self,
        arrays: Mapping[str, npt.NDArray[Any]],
        done: Callable[[Inference], None],
        terms: Terms = NO_TERMS,
    ) -> Inference:
        """Sends a request with an array for each input; see `Model.infer`."""
        options = self.options
        if terms.sequence is not None:
            owner = self.find_owner(self, terms.sequence.id)
            if owner is not None:
                return owner.infer(arrays, done, terms)
        for name, array in arrays.items():
            if array.size > options.max_tensor_elements:
                options.check_elements(array.size, f"input {name!r}")
            if array.ndim and len(array) > options.max_rows and self._is_batched(name):
                options.check_rows(len(array), f"input {name!r}")
        items = items_of(self.signature, arrays)
        call = self.send(items, done, terms)
        ports = self.signature.inputs
        if isinstance(call, InferCall):
            call.is_without_axis = bool(ports) and all(is_whole(p, arrays[p.name]) for p in ports)
        return call

    def _is_batched(self, name: str) -> bool:
        return any(port.name == name and port.is_batched for port in self.signature.inputs)

    def send(
        self,
        items: Mapping[str, Sequence[Any]],
        done: Callable[[Inference], None],
        terms: Terms = NO_TERMS,
    ) -> Inference:
        """Sends a request with the items of each input; see `Model.infer`.

        Raises:
            OverloadedError: the model has no room for the request, or its key has reached a limit.
        """
        deadline, request_context, _, is_first, sequence, parameters = terms
        given = items or self.triggers
        if sequence is not None:
            return self._send_step(given, done, terms, sequence)
        context = None
        if request_context is not None or parameters:
            context = self._enter_context(given, terms)
        # The call is made before `admit` counts it. Its deadline is therefore known by then.
        call = InferCall(self, given, done, terms, context)
        if context is not None and SHADOW in context:
            call.figures = self.shadows
        if self.cache is not None and not terms.is_stream:
            call.cache_key = hash_inputs(self.signature_name, given, parameters)
            found = self.cache.find(call.cache_key)
            call.figures.on_lookup(is_hit=found is not None)
            if found is not None:
                return CachedCall(call, given, done, found)
        self.admission.admit(deadline, is_first=is_first)
        if request_context is not None:
            call.watch(request_context)
        limit = self.time_limit
        if deadline is None:  # `TimeLimit.add` inlined, for the common case
            limit.until[call] = call.began + limit.seconds
            if limit.timer is None:
                limit.begin()
        else:
            limit.add(call, deadline)
        if is_first:
            self.submit_queue.add_first(call)
        else:
            self.submit_queue.add(call)
        return call

    def _enter_context(self, items: Mapping[str, Sequence[Any]], terms: Terms) -> Mapping[str, Any]:
        """Reports the request to its observer, and returns the content of the session's dict."""
        context: Mapping[str, Any] = {}
        if terms.context is not None:
            rows = max(1, *map(len, items.values())) if items else 1
            context = terms.context.enter(self.name, self.version, rows)
        return {**context, "parameters": terms.parameters} if terms.parameters else context

    def on_shadow_refused(self, error: Exception) -> None:
        """Counts a copy for a shadow version that was refused."""
        self.shadows.on_failure(problem_of(error).code)

    def _send_step(
        self,
        items: Mapping[str, Sequence[Any]],
        done: Callable[[Inference], None],
        terms: Terms,
        step: SequenceStep,
    ) -> Inference:
        owner = self.find_owner(self, step.id)
        if owner is not None:
            return owner.send(items, done, terms)
        context = self._enter_context(items, terms)
        self.admission.admit(terms.deadline)
        try:
            self.sequences.check(step)  # after `admit`, which may end sequences
            call = SequenceCall(self, items, done, step.id)
            self.sequences.add(call, step, context)
        except StreamClosed as error:
            self.on_done()
            self._on_close()
            raise problem_of(error) from error
        except Problem:
            self.on_done()
            raise
        self.time_limit.add(call, terms.deadline)
        return call

    def on_done(self, code: Code | None = None, *, is_first: bool = False) -> None:
        """Notes the end of a request that was never submitted.

        Args:
            code: The reason. None if the request goes on as another request.
            is_first: The request is of the first class.
        """
        if code is not None:
            self.figures.on_failure(code)
        self.admission.on_done(is_first=is_first)
        self._tell_when_idle()

    @property
    def batching(self) -> Batching:
        """The batching parameters of the flow."""
        return Batching.of(self.flow)

    def expect(self, deadline: float | None, *, is_first: bool = False) -> None:
        """Refuses a request that `send` would refuse, before the slower decoding of the request.

        With a cache no request is refused yet, because a stored answer takes no room.

        Args:
            deadline: Seconds for which the client waits, from the request's headers. None if they
                set no limit.
            is_first: The request is or may be of the first class.

        Raises:
            OverloadedError: the model has no room for the request.
        """
        if self.cache is None:
            self.admission.expect(deadline, is_first=is_first)

    def _catch_up(self) -> None:
        """Submits queued requests and ends finished requests before a request is refused.

        One turn of the event loop may bring many requests. Without this step, finished requests
        would free no room until the turn ends. The model would also be idle until then.
        """
        now = SYSTEM_CLOCK.now()
        if now - self._caught_up >= _TURN:
            self.submit_queue.hurry()
            self.loop_queue.run()
            self._caught_up = now

    def forget(self, call: InferCall) -> None:
        """Cancels a request whose caller has gone, and drops its queued items."""
        if self.withdraw(call):
            self.time_limit.forget(call)
            self.on_done(Code.CANCELLED, is_first=call.request.is_first)
        else:
            call.request.cancel()

    def withdraw(self, call: InferCall) -> bool:
        """Removes a request from the queue. Returns False if the request is in the flow or over."""
        return self.submit_queue.forget(call)

    def over(self, end: Callable[[], None]) -> None:
        """Ends requests on the server's thread, with one wake-up for many. From any thread.

        Args:
            end: Ends the requests, and reports them to `Admission.on_done`.
        """
        # Append before the test: `_finish` clears the flag before it reads the deque. No callback
        # is lost.
        self._over.append(end)
        if not self._is_told:
            self._is_told = True
            self.loop_queue.post(self._finish)

    def _finish(self) -> None:
        """Ends the finished requests."""
        self._is_told = False
        over = self._over
        while over:
            end = over.popleft()
            try:
                end()
            except Exception as error:  # noqa: BLE001 - the other requests still end
                context = {"message": f"{end!r} raised", "exception": error}
                asyncio.get_running_loop().call_exception_handler(context)
        self._count()
        self._tell_when_idle()

    def on_end(self, *, is_first: bool = False) -> None:
        """Notes the end of a request. The rate of answers is measured once a turn of the loop."""
        self.on_done(is_first=is_first)
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
        """Calls ``on_idle`` once, when no request for any signature is under way.

        The caller makes sure that no further request arrives.
        """
        self._on_idle = on_idle
        self.sequences.close()
        for other in self.others.values():
            other.retire(self._tell_when_idle)
        self._tell_when_idle()

    def _tell_when_idle(self) -> None:
        # Not in this turn of the loop: a request that has found this model may be inside
        # `_catch_up` now, and is sent after that.
        if self._on_idle is not None:
            asyncio.get_running_loop().call_soon(self._tell_if_idle)

    def _tell_if_idle(self) -> None:
        is_busy = any(one.admission.under_way for one in self.all_signatures())
        if self._on_idle is not None and not is_busy:
            on_idle, self._on_idle = self._on_idle, None
            on_idle()


def _own(_model: Model, _sequence: int | str) -> None:
    """Returns None, because this process has all sequences."""
