"""A part of a graph: its portable form, and the flow that runs the part."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Self

from modelflow.archive.manifest import Manifest
from modelflow.config.flow_config import EdgeConfig, FlowConfig, NodeConfig, PortRef, ServeConfig
from modelflow.errors import EndFlow, FlowFailed, PlanError, StreamClosed
from modelflow.flow import Flow
from modelflow.graph.node import Role
from modelflow.plan.origins import find_origins
from modelflow.plan.partition import Partition
from modelflow.remote.message import (
    Answers,
    Column,
    Done,
    Rows,
    Several,
    buffers_of,
    column_of,
    fault_of,
)
from modelflow.remote.replica import PartEndedError, this_process
from modelflow.runtime.clock import SYSTEM_CLOCK
from modelflow.runtime.session import watcher
from modelflow.runtime.stats import NodeStats
from modelflow.stream_io.request import Request, submit

if TYPE_CHECKING:
    from modelflow.buffer import Buffer

# Seconds between two signs of life, and between two signs while rows are being done.
_ALIVE = 1.0
_MOVED = 0.25


@dataclass(frozen=True)
class Part:
    """The portable form of a part: its configuration, without objects of the graph.

    Attributes:
        name: The remote node.
        config: The configuration of the part as a graph of its own.
        units: Flow units that are defined only in the caller's code.
    """

    name: str
    config: FlowConfig
    units: tuple[Any, ...] = ()

    def move(self, folder: Path, manifest: Manifest) -> "Part":
        """Returns the part with paths into an archive that was unpacked on another machine."""
        config = replace(
            self.config,
            path=folder / manifest.graph,
            modules=tuple(folder / name for name in manifest.modules),
        )
        return replace(self, config=config)


def part_of(partition: Partition, units: Sequence[Any]) -> Part:
    """Returns the portable form of a partition.

    Args:
        partition: The partition.
        units: Flow units that are defined only in the caller's code.

    Raises:
        PlanError: The graph was made in code, and has no configuration to send.
    """
    graph = partition.graph
    written = {node.name: node for node in graph.config.nodes}
    nodes = []
    for node in graph.nodes.values():
        if node.role is not Role.FLOWUNIT:
            nodes.append(NodeConfig(node.name, {"type": str(node.role)}))
        elif node.name in written:
            nodes.append(written[node.name])
        else:
            raise PlanError(
                f"node {node.name!r}: placement: its graph has no text that could be sent to "
                "another process; expected a graph file, a mapping or a FlowGraphDesc"
            )
    edges = [
        EdgeConfig(
            PortRef(edge.source.node, edge.source.port), PortRef(edge.target.node, edge.target.port)
        )
        for edge in graph.edges
    ]
    path = graph.config.path
    config = replace(
        graph.config,
        path=None if path is None else path.absolute(),  # its process may have another folder
        nodes=tuple(nodes),
        edges=tuple(edges),
        profile={},
        log={},
        flow={"name": graph.name},
        graph={**graph.config.graph, "strict": True},
        serve=ServeConfig(),
        notes=(),
    )
    return Part(partition.name, config, tuple(units))


class _Batch:
    """A received batch, with the number of rows that are not done."""

    def __init__(self, left: int) -> None:
        self.remaining = left
        self.come = SYSTEM_CLOCK.now()
        self.done: list[Done] = []


class _RowWatcher:
    """Records the calls of units for a row that is watched in the local flow."""

    def __init__(self, batch: _Batch, row: int) -> None:
        self._batch, self._row = batch, row

    def on_call(self, part: watcher.Part) -> None:
        come = self._batch.come
        track = f"{this_process()}/{part.track}"
        start, end = part.start - come, part.end - come
        call = part._replace(start=start, end=end, error=None, track=track)
        fault = None if part.error is None else fault_of(part.error)
        self._batch.done.append(Done(self._row, call, fault))

    def over(self) -> None:
        """Does nothing, because the row is answered with its batch."""


class PartFlow:
    """A running part; safe for several threads, whose rows can share batches inside."""

    def __init__(self, flow: Flow) -> None:
        """Stores the flow of the part's graph; does not start the flow."""
        self._flow = flow
        self._outputs = flow.graph.outputs
        origin = find_origins(flow.graph).get("")
        self._single = origin.single_outputs if origin is not None else frozenset(self._outputs)
        # In the order of arrival.
        self._batches: dict[_Batch, None] = {}

    @classmethod
    def of(cls, part: Part) -> Self:
        """Reads and checks a part that was received.

        Raises:
            ModelflowError: The part cannot run in this process.
        """
        return cls(Flow(part.config, units=part.units))

    def start(self) -> Self:
        """Opens every unit.

        Raises:
            FlowFailed: A unit did not open.
        """
        self._flow.start()
        return self

    def stop(self) -> None:
        """Stops the part at once; batches in flight are answered with errors."""
        self._flow.stop(drain=False)

    def figures(self) -> dict[str, NodeStats]:
        """Returns the statistics of each node."""
        return dict(self._flow.stats())

    def answer(self, rows: Rows, sign: Callable[[bool], None] | None = None) -> Answers:
        """Processes a batch, each row as its own request.

        The flow then forms its own batches from the rows of all callers. A row whose deadline has
        passed gets an error and reaches no unit.

        Args:
            rows: The batch.
            sign: Called at least once a second. The argument says whether a row was done since the
                last call that the batch waits for.

        Raises:
            PartEndedError: A unit has ended the flow.
            StreamClosed: The flow was stopped, or has failed in another way.
        """
        batch = _Batch(len(rows))
        self._batches[batch] = None
        try:
            columns = self._on_answer(rows, batch, sign)
        except StreamClosed as error:
            if said := self._find_end_message():
                raise PartEndedError(said) from error
            raise
        finally:
            del self._batches[batch]
        passed = SYSTEM_CLOCK.now() - batch.come
        return Answers(columns, passed, len(self._batches), done=tuple(batch.done))

    def _ahead(self, batch: "_Batch") -> int:
        """Returns the number of unfinished rows of a batch and of all earlier batches."""
        total = 0
        for other in list(self._batches):
            total += other.remaining
            if other is batch:
                break
        return total

    def _on_answer(
        self, rows: Rows, batch: "_Batch", sign: Callable[[bool], None] | None
    ) -> dict[str, Column]:
        events: SimpleQueue[bool] = SimpleQueue()
        inputs = {port: buffers_of(column) for port, column in rows.columns.items()}

        def on_done(_: Request) -> None:
            events.put(True)

        requests = [
            Request(
                {port: (buffers[place],) for port, buffers in inputs.items()},
                on_done,
                deadline=left,
            )
            for place, left in enumerate(rows.remaining)
        ]
        for row in rows.watched:
            requests[row].watch(_RowWatcher(batch, row))
        try:
            self._see_through(requests, batch, events, sign)
        except BaseException:  # the caller has gone, or the flow has ended
            for request in requests:
                request.cancel()
            raise
        answers = [request.answer() for request in requests]
        return {output: self._column(output, answers) for output in self._outputs}

    def _column(self, output: str, answers: Sequence[Mapping[str, Sequence["Buffer"]]]) -> Column:
        """Returns the results of an output for each row."""
        if output in self._single:
            return column_of([buffer for answer in answers for buffer in answer[output]])
        return [Several(*column_of(answer[output])) for answer in answers], [None] * len(answers)

    def _see_through(
        self,
        requests: Sequence[Request],
        batch: "_Batch",
        events: "SimpleQueue[bool]",
        sign: Callable[[bool], None] | None,
    ) -> None:
        """Submits requests and waits for all of them; ``events`` gets a True for each end."""
        has_room = partial(events.put, False)
        unsent = submit(self._flow.scheduler, requests, has_room)
        before, signed = self._ahead(batch), SYSTEM_CLOCK.now()
        while batch.remaining:
            with contextlib.suppress(Empty):
                if events.get(timeout=None if sign is None else _MOVED):
                    batch.remaining -= 1
                else:
                    unsent = submit(self._flow.scheduler, unsent, has_room)
            if sign is None or (passed := SYSTEM_CLOCK.now() - signed) < _MOVED:
                continue
            now = self._ahead(batch)
            if now < before or passed >= _ALIVE:
                sign(now < before)
                before, signed = now, SYSTEM_CLOCK.now()

    def _find_end_message(self) -> str:
        """Returns the message of the unit that ended the flow, or "" if none did."""
        try:
            self._flow.stop(drain=False)
        except FlowFailed as failure:
            for error in failure.exceptions:
                if isinstance(error.__cause__, EndFlow):
                    return str(error)
        return ""


def start_parts(parts: Sequence[Part]) -> dict[str, PartFlow]:
    """Opens every unit of some parts; returns the running parts by name.

    Raises:
        ModelflowError: A part cannot run in this process. All parts are stopped again.
    """
    found: dict[str, PartFlow] = {}
    try:
        for part in parts:
            found[part.name] = PartFlow.of(part).start()
    except BaseException:
        stop_all(found)
        raise
    return found


def stop_all(parts: Mapping[str, PartFlow]) -> None:
    """Stops parts at once."""
    for part in parts.values():
        part.stop()
