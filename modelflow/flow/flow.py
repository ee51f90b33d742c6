"""The class `Flow`: the operations of a running graph."""

import math
import os
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
    Mapping,
)
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from modelflow.errors import did_you_mean
from modelflow.flow.life import FlowLife

if TYPE_CHECKING:
    from modelflow.flow.map import ItemMap
    from modelflow.profile.recording import Recording
    from modelflow.profile.trace_events import FollowedRequest
    from modelflow.runtime.stats import FlowStats
    from modelflow.stream_io import StreamIO

T = TypeVar("T")

# The largest sampling interval of a recording, for example one of 65536 requests.
_MOST_SKIPPED = 1 << 16


class Flow(FlowLife):
    """A graph and its running engine.

    ::

        with Flow("graph.toml") as flow:
            answer = flow.infer({"input": jpeg})

    Safe to use from several threads. You can start a flow once and stop it once. After a ``fork``,
    the child cannot use a flow of the parent.
    """

    def create_stream_io(
        self, context: Mapping[str, Any] | None = None, *, source: str | None = None
    ) -> "StreamIO":
        """Opens a session, through which you send and receive a stream of buffers.

        Args:
            context: The initial content of the dict that the units of the session share.
            source: The name of a source node. Returns the session of that source, from which you
                can receive, also after the flow has ended. None for a new session of the graph's
                inputs.

        Raises:
            KeyError: The graph has no such source.
            StreamClosed: The flow was not started. For a new session: the flow does not run, or its
                graph has no input.
            TypeError: ``context`` is no mapping.
        """
        if not (context is None or isinstance(context, Mapping)):
            raise TypeError(f"context: got {context!r:.60}; expected a mapping, or source=NODE")
        scheduler = self._running_scheduler()
        if source is None:
            stream = self._stream_class(scheduler, scheduler.create_session())
        elif source in scheduler.sources:
            stream = self._stream_class(scheduler, scheduler.sources[source], is_owner=False)
        else:
            names = ", ".join(map(repr, scheduler.sources)) or "none"
            near = did_you_mean(str(source), scheduler.sources)
            raise KeyError(f"the graph has no source {source!r}{near} (sources: {names})")
        if context:
            stream.context.update(context)
        return stream

    def infer(
        self,
        inputs: Any,
        timeout: float | None = None,
        deadline: float | None = None,
        *,
        wait: bool = True,
    ) -> Any:
        """Sends a request in a session of its own and returns the answer.

        Args:
            inputs: ``{input: value}``, or the value alone for a graph with one input.
            timeout: The longest wait in seconds for the whole call, or None for no limit.
            deadline: Seconds from now after which the answer is of no use. Units do not start work
                on the request after that time. A unit that is already working on the request is not
                interrupted.
            wait: True to wait while the queues are full. False to refuse the request immediately in
                that case, even if ``queue_policy`` is ``block``.

        Returns:
            The output's `Buffer`, or ``{output: Buffer}`` for a graph with several outputs. An
            output that does not return exactly one buffer for each input buffer has a list of
            buffers instead. Such outputs follow a condition or a stream unit, or are inside an
            expand.

        Raises:
            FlowUnitError: A unit failed for the request.
            DeadlineExceeded: The deadline passed.
            TimeoutError: The answer was not ready in time; the request is cancelled.
            QueueFullError: The queues are full, and ``wait`` or ``queue_policy`` forbids a wait.
            StreamClosed, KeyError, TypeError, ValueError: As `StreamIO.send`.
        """
        columns = self._columns(inputs)
        if deadline is None:
            stream = self.create_stream_io()
            found = stream.exchange(columns, timeout, wait=wait)
        else:
            from modelflow.stream_io import wait_until_deadline

            with wait_until_deadline(deadline, timeout) as limit:
                stream = self.create_stream_io()
                found = stream.exchange(columns, limit, deadline, wait=wait)
        return self._answer_of(found, stream._session.single_outputs)

    async def ainfer(
        self,
        inputs: Any,
        timeout: float | None = None,
        deadline: float | None = None,
        *,
        wait: bool = True,
    ) -> Any:
        """Sends a request as `infer` does, without blocking the event loop."""
        columns = self._columns(inputs)
        if deadline is None:
            stream = self.create_stream_io()
            found = await stream.aexchange(columns, timeout, wait=wait)
        else:
            from modelflow.stream_io import wait_until_deadline

            with wait_until_deadline(deadline, timeout) as limit:
                stream = self.create_stream_io()
                found = await stream.aexchange(columns, limit, deadline, wait=wait)
        return self._answer_of(found, stream._session.single_outputs)

    def map(
        self,
        items: Iterable[T],
        *,
        ordered: bool = True,
        in_flight: int | None = None,
        errors: Literal["raise", "return"] = "raise",
        deadline: float | None = None,
    ) -> Iterator[tuple[T, Any]]:
        """Sends each item as a request, and yields each item with its answer.

        ::

            for path, scores in flow.map(paths_of(folder), in_flight=64):
                print(path, scores.data.argmax())

        `map` reads the iterator only as fast as the graph accepts items, at most ``in_flight``
        ahead. The iterator may be infinite. An exception of the iterator is raised after the
        answers of all earlier items. If you leave the loop early, the requests in flight are
        cancelled.

        Args:
            items: The arguments of `infer`: a value, or ``{input: value}``.
            ordered: True for answers in the order of the items, False for answers in the order of
                completion.
            in_flight: The most items that are in flight, or done and not yet yielded. None for 16
                to 1024 items: two batches for each thread of the node with the most rows at once.
            errors: ``raise`` to raise the error of the first item that fails, ``return`` to yield
                the error as the answer.
            deadline: Seconds after an item was sent. Units do not start work on the item after that
                time.

        Returns:
            Pairs of an item and the result that `infer` would return.

        Raises:
            TypeError: ``deadline`` is no number.
            ValueError: A value is out of its range.
            FlowUnitError, DeadlineExceeded, KeyError: An item failed.
            StreamClosed: The flow does not run, or was stopped.
        """
        from modelflow.flow.map import map_items

        make = self._job(in_flight, ordered=ordered, errors=errors, deadline=deadline)
        return map_items(make, items)

    def amap(
        self,
        items: Iterable[T] | AsyncIterable[T],
        *,
        ordered: bool = True,
        in_flight: int | None = None,
        errors: Literal["raise", "return"] = "raise",
        deadline: float | None = None,
    ) -> AsyncIterator[tuple[T, Any]]:
        """Yields items and answers as `map` does, without blocking the event loop.

        The items may be an asynchronous iterable.
        """
        from modelflow.flow.map import amap_items

        make = self._job(in_flight, ordered=ordered, errors=errors, deadline=deadline)
        return amap_items(make, items)

    def _job(
        self,
        in_flight: int | None,
        *,
        ordered: bool,
        errors: Literal["raise", "return"],
        deadline: float | None,
    ) -> "Callable[[Callable[[], None]], ItemMap[Any]]":
        from modelflow.flow.map import ItemMap, options_of

        scheduler = self._running_scheduler()
        scheduler.check_outside("map")
        plan = scheduler.plan
        if in_flight is None:
            busiest = max(
                (stage.batch_size * stage.threads for stage in plan.stages.values()), default=1
            )
            in_flight = min(1024, max(16, 2 * busiest))
        options = options_of(
            in_flight,
            ordered=ordered,
            errors=errors,
            deadline=deadline,
            single_outputs=scheduler.single_outputs,
        )
        return partial(ItemMap, scheduler, self._columns, options)

    def __repr__(self) -> str:
        graph = self._graph
        ports = (", ".join(names) or "none" for names in (graph.inputs, graph.outputs))
        return "<Flow {!r}: {} nodes, inputs: {}, outputs: {}>".format(
            graph.name, len(graph.nodes), *ports
        )

    def _repr_svg_(self) -> str:
        """Returns the picture of the graph as SVG for a notebook."""
        from modelflow.draw.svg import draw  # only notebooks need it

        return draw(self.graph)

    def stats(self) -> "FlowStats":
        """Returns the current statistics: a mapping from node names to the statistics of each node.

        Each node has counts, batch sizes, times and queues. The whole flow has requests, latency
        and memory. For a period of time, take the difference of two calls::

            before = flow.stats()
            ...
            rate = (flow.stats()["infer"].buffers - before["infer"].buffers) / seconds
        """
        from modelflow.runtime.stats import FlowStats

        return FlowStats() if self._scheduler is None else self._scheduler.statistics()

    def record(  # noqa: PLR0913 - each is the user's to set
        self,
        path: str | os.PathLike[str],
        *,
        requests: int = 100,
        slowest: int = 0,
        every: int = 16,
        short: float = 200e-6,
        is_packed: bool | None = None,
        most_seconds: float = math.inf,
        followed: "Callable[[FollowedRequest], None] | None" = None,
    ) -> "Recording":
        """Records the calls of all workers into a file for Perfetto (ui.perfetto.dev).

        The file has a track for each worker with its calls, the rows of each call, their time in
        queues, and waits for room. It also has the fill levels of the queues, and sampled requests
        with the work of each node::

            with flow.record("trace.json.gz"):
                ...

        The recording begins with the block or with `Recording.start`, also before the flow starts.
        If the process is killed, the file keeps the part that was written.

        Args:
            path: The file. The suffix ``.gz`` turns on compression.
            requests: The sampling interval of requests (sessions): 100 follows one request of 100.
                0 follows no request.
            slowest: The number of requests that are also written for each second: those that took
                the longest. All requests are followed for this, because only their end shows which
                were slow. This costs some microseconds for each step of a request.
            every: The sampling interval of short calls and short waits for room: 16 writes one of
                16. Calls below a fifth of ``short`` are written four times more rarely. 1 writes
                all.
            short: The limit below which a call or wait is short, in seconds.
            is_packed: True to compress the file, None to follow the suffix of ``path``.
            most_seconds: The time after which the recording ends by itself, in seconds from its
                start.
            followed: Called with each followed request when it is written, on the thread of the
                recording.

        Raises:
            ValueError: A number is out of its range.
        """
        counts = (("requests", requests, 0), ("slowest", slowest, 0), ("every", every, 1))
        for name, value, least in counts:
            if not least <= value <= _MOST_SKIPPED:
                raise ValueError(f"{name}: got {value!r}; expected {least} to {_MOST_SKIPPED}")
        from modelflow.profile.recording import Recording

        return Recording(
            self.scheduler,
            Path(path),
            requests=requests,
            slowest=slowest,
            every=every,
            short=short,
            is_packed=is_packed,
            most_seconds=most_seconds,
            followed=followed,
        )

    def reload(self, node: str | None = None) -> None:
        """Replaces the running model of a node with the newest version.

        The calling thread loads and warms up the new version while the old version serves requests.
        Then batches go to the new version, and the old version is freed after its last batch. If
        the new version does not load, the old version continues.

        Args:
            node: The node of the model, or None for the models of all nodes.

        Raises:
            FlowUnitError: The new version does not load, or the node has nothing to reload.
            KeyError: The graph has no such node.
            StreamClosed: The flow does not run.
        """
        scheduler = self._running_scheduler()
        if node is not None and node not in scheduler.plan.nodes:
            names, near = ", ".join(scheduler.plan.nodes), did_you_mean(node, scheduler.plan.nodes)
            raise KeyError(f"the graph has no node {node!r}{near} (nodes: {names})")
        scheduler.reload(node)

    def reconfigure(self, changes: Mapping[str, Any]) -> None:
        """Changes attributes of the running flow without losing a row or failing a request.

        A stage whose number of threads changes pauses until its current calls have returned. New
        threads open their units before that pause. The graph file does not change.

        Args:
            changes: ``{"node.attribute": value}``, in the form of ``--set``. The attributes are
                ``batch_size``, ``batch_timeout_ms``, ``queue_size``, ``queue_size_PORT``,
                ``queue_bytes``, and ``threads`` of normal units. ``{"max_in_flight": rows}`` is
                possible if the graph has that attribute.

        Raises:
            ConfigError, PlanError: A change is wrong, or is not possible while the flow runs. No
                change was made.
            FlowFailed: A unit of a new thread did not open. Nodes earlier in ``changes`` are
                changed.
            RuntimeError: A unit of this flow called this method.
            StreamClosed: The flow does not run.
        """
        self._running_scheduler().reconfigure(changes)

    def _columns(self, inputs: Any) -> dict[str, tuple[Any]]:
        """Returns the value of each input as a tuple of length 1."""
        names = self._graph.inputs
        if not names:
            return {}  # `create_session` then raises an error that names the sources of the graph
        # The test against an abstract class costs a call, and few values have keys.
        is_mapping = hasattr(inputs, "keys") and isinstance(inputs, Mapping)
        if is_mapping and (len(names) != 1 or set(inputs) == set(names)):
            if set(inputs) != set(names):
                raise KeyError(f"got the inputs {sorted(inputs)}; expected {sorted(names)}")
            return {port: (value,) for port, value in inputs.items()}
        if len(names) != 1:
            raise KeyError(
                f"the graph has the inputs {list(names)}; give a mapping with each of them"
            )
        return {names[0]: (inputs,)}
