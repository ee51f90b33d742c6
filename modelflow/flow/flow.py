"""`Flow`: what users do with a graph that runs."""

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
from modelflow.flow.map import ItemMap, amap_items, map_items, options_of
from modelflow.runtime.stats import FlowStats
from modelflow.stream_io import StreamIO, answer_of, wait_until_deadline

if TYPE_CHECKING:
    from modelflow.profile.recording import Recording
    from modelflow.profile.trace_events import FollowedRequest

T = TypeVar("T")

# A recording keeps one of so many at the least.
_MOST_SKIPPED = 1 << 16


class Flow(FlowLife):
    """A graph and its running engine.

    ::

        with Flow("graph.toml") as flow:
            answer = flow.infer({"input": jpeg})

    Safe to use from several threads. A flow is started once and stopped once; it may be used after
    ``fork`` only if it was made after it.
    """

    def create_stream_io(
        self, context: Mapping[str, Any] | None = None, *, source: str | None = None
    ) -> StreamIO:
        """Opens a session.

        Args:
            context: First content of the dict that the session's units share.
            source: A source node of the graph: the session that it feeds, to receive from, also
                when the flow has ended; None: a new session of the graph's inputs.

        Raises:
            KeyError: the graph has no such source.
            StreamClosed: the flow was not started; for a new session: it does not run, or its
                graph has no input.
            TypeError: ``context`` is no mapping.
        """
        if not (context is None or isinstance(context, Mapping)):
            raise TypeError(f"context: got {context!r:.60}; expected a mapping, or source=NODE")
        scheduler = self._running_scheduler()
        if source is None:
            stream = StreamIO(scheduler, scheduler.create_session())
        elif source in scheduler.sources:
            stream = StreamIO(scheduler, scheduler.sources[source], is_owner=False)
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
        """Sends one request in a session of its own and returns its answer.

        Args:
            inputs: ``{input: value}``; where the graph has one input, the value alone will do.
            timeout: Longest wait in seconds for the whole; None: as long as it takes.
            deadline: Seconds from now after which nobody waits for the answer, and nothing is
                computed for it any more; a unit that is at work on it then is not interrupted.
            wait: Waits for room; False: where there is none the request is refused at once,
                whatever ``queue_policy`` says.

        Returns:
            The output's `Buffer`; where the graph has several outputs, ``{output: Buffer}``. An
            output that does not get exactly one buffer for each that is sent (behind a condition, a
            stream unit, inside an expand) gives the list of what came out.

        Raises:
            FlowUnitError: a unit failed on it.
            DeadlineExceeded: its deadline passed.
            TimeoutError: no answer in time; the request is cancelled.
            QueueFullError: there is no room now, and ``wait`` or ``queue_policy`` says not to wait.
            StreamClosed, KeyError, TypeError, ValueError: as `StreamIO.send`.
        """
        columns = self._columns(inputs)
        if deadline is None:
            stream = self.create_stream_io()
            found = stream.exchange(columns, timeout, wait=wait)
        else:
            with wait_until_deadline(deadline, timeout) as limit:
                stream = self.create_stream_io()
                found = stream.exchange(columns, limit, deadline, wait=wait)
        return answer_of(found, stream._session.single_outputs)

    async def ainfer(
        self,
        inputs: Any,
        timeout: float | None = None,
        deadline: float | None = None,
        *,
        wait: bool = True,
    ) -> Any:
        """Does what `infer` does without blocking the event loop."""
        columns = self._columns(inputs)
        if deadline is None:
            stream = self.create_stream_io()
            found = await stream.aexchange(columns, timeout, wait=wait)
        else:
            with wait_until_deadline(deadline, timeout) as limit:
                stream = self.create_stream_io()
                found = await stream.aexchange(columns, limit, deadline, wait=wait)
        return answer_of(found, stream._session.single_outputs)

    def map(
        self,
        items: Iterable[T],
        *,
        ordered: bool = True,
        in_flight: int | None = None,
        errors: Literal["raise", "return"] = "raise",
        deadline: float | None = None,
    ) -> Iterator[tuple[T, Any]]:
        """Sends each item as a request, and gives each back with its answer, as they are done.

        ::

            for path, scores in flow.map(paths_of(folder), in_flight=64):
                print(path, scores.data.argmax())

        Items are taken as they can be sent: of an endless iterator no more than ``in_flight``. What
        the iterator itself raises is raised behind the answers to what it gave before. Whoever
        leaves the loop gives up what is under way.

        Args:
            items: What `infer` takes: a value, or ``{input: value}``.
            ordered: In the order of the items; False: in that in which they are done.
            in_flight: Items that are under way, or done and not taken, at most; None: two batches
                for each thread of the node that takes the most, 16 to 1024.
            errors: ``raise``: an item that fails ends it all; ``return``: the error is its answer.
            deadline: Seconds from when an item is sent, after which nothing is computed for it.

        Returns:
            Pairs of the item and what `infer` would have returned.

        Raises:
            TypeError: ``deadline`` is no number.
            ValueError: a value is out of its range.
            FlowUnitError, DeadlineExceeded, KeyError: an item failed.
            StreamClosed: the flow does not run, or was stopped.
        """
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
        """Does what `map` does without blocking the event loop; items may come asynchronously."""
        make = self._job(in_flight, ordered=ordered, errors=errors, deadline=deadline)
        return amap_items(make, items)

    def _job(
        self,
        in_flight: int | None,
        *,
        ordered: bool,
        errors: Literal["raise", "return"],
        deadline: float | None,
    ) -> Callable[[Callable[[], None]], ItemMap[Any]]:
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
        """Returns the graph's picture, which a notebook shows."""
        from modelflow.draw.svg import draw  # of notebooks alone

        return draw(self.graph)

    def stats(self) -> FlowStats:
        """Returns the figures of this moment: a mapping from the names of nodes to theirs.

        Counts, batch sizes, times, queues of each node; requests, latency and memory of the whole.
        What lies between two of them is their difference::

            before = flow.stats()
            ...
            rate = (flow.stats()["infer"].buffers - before["infer"].buffers) / seconds
        """
        return FlowStats() if self._scheduler is None else self._scheduler.statistics()

    def record(  # noqa: PLR0913 - each is the user's to set
        self,
        path: str | os.PathLike[str],
        *,
        requests: int = 100,
        slowest: int = 0,
        every: int = 16,
        short: float = 50e-6,
        is_packed: bool | None = None,
        most_seconds: float = math.inf,
        followed: "Callable[[FollowedRequest], None] | None" = None,
    ) -> "Recording":
        """Records what the workers do, into a file that Perfetto opens (ui.perfetto.dev).

        A track a worker with its calls, the rows of each, how long they had waited and what waited
        for room; how full the queues were; sampled requests with what each node did for them::

            with flow.record("trace.json.gz"):
                ...

        It begins with the block, or with `Recording.start`, also before the flow does. What has
        been written stays if the process is killed.

        Args:
            path: The file; with the suffix ``.gz`` it is compressed.
            requests: One of so many requests (sessions) is followed; 0: none is.
            slowest: So many of each second's requests are written as well, those that took the
                longest. Nobody knows which before they end: all are followed then, which costs some
                microseconds for each of their steps.
            every: Of calls, and waits for room, shorter than ``short`` one of so many is written,
                of calls shorter than a fifth of it one of four times as many; 1: all are.
            short: In seconds.
            is_packed: It is compressed; None: as its suffix says.
            most_seconds: When it ends by itself, in seconds from its start.
            followed: Called with every request that is followed, when it is written; on the
                recording's thread.

        Raises:
            ValueError: a number is out of its range.
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
        """Loads the newest version of a node's model in the place of the one that runs.

        The new one is loaded and warmed up on the calling thread, beside the traffic; then batches
        go to it, and the old one is freed when it has done what it had. Where that fails, the old
        one goes on.

        Args:
            node: Whose model; None: those of all nodes that have one.

        Raises:
            FlowUnitError: the new one does not load, or the node has nothing to reload.
            KeyError: there is no such node.
            StreamClosed: the flow does not run.
        """
        scheduler = self._running_scheduler()
        if node is not None and node not in scheduler.plan.nodes:
            names, near = ", ".join(scheduler.plan.nodes), did_you_mean(node, scheduler.plan.nodes)
            raise KeyError(f"the graph has no node {node!r}{near} (nodes: {names})")
        scheduler.reload(node)

    def reconfigure(self, changes: Mapping[str, Any]) -> None:
        """Changes how the flow works while it runs; no row is lost, and no request fails.

        A stage whose number of threads changes pauses until what it is doing is done; new threads
        have opened their units before. What the graph file says stays as it is.

        Args:
            changes: ``{"node.attribute": value}``, as ``--set`` has them: ``batch_size``,
                ``batch_timeout_ms``, ``queue_size``, ``queue_size_PORT``, ``queue_bytes``, and
                ``threads`` of normal units; ``{"max_in_flight": rows}`` where the graph has it.

        Raises:
            ConfigError, PlanError: a change is wrong, or cannot be made while the flow runs; none
                has been made.
            FlowFailed: a unit of a new thread did not open; nodes before it are changed.
            RuntimeError: a unit of this flow called it.
            StreamClosed: the flow does not run.
        """
        self._running_scheduler().reconfigure(changes)

    def _columns(self, inputs: Any) -> dict[str, tuple[Any]]:
        """Returns the one value of each input."""
        names = self.graph.inputs
        if not names:
            return {}  # there is no session to be had, which says what feeds the graph
        is_mapping = type(inputs) is dict or isinstance(inputs, Mapping)
        if is_mapping and (len(names) != 1 or set(inputs) == set(names)):
            if set(inputs) != set(names):
                raise KeyError(f"got the inputs {sorted(inputs)}; expected {sorted(names)}")
            return {port: (value,) for port, value in inputs.items()}
        if len(names) != 1:
            raise KeyError(
                f"the graph has the inputs {list(names)}; give a mapping with each of them"
            )
        return {names[0]: (inputs,)}
