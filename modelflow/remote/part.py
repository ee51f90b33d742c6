"""A part of a graph where it runs: what is sent there, and the flow that answers."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Self

from modelflow.archive.manifest import Manifest
from modelflow.config.flow_config import EdgeConfig, FlowConfig, NodeConfig, PortRef
from modelflow.config.serve_port import ServeConfig
from modelflow.errors import EndFlow, FlowFailed, PlanError, StreamClosed
from modelflow.flow import Flow
from modelflow.graph.node import Role
from modelflow.plan.placement import Partition
from modelflow.remote.message import Answers, Rows, buffers_of, column_of
from modelflow.remote.replica import PartEndedError
from modelflow.request import Request
from modelflow.runtime.clock import SYSTEM_CLOCK
from modelflow.runtime.stats import NodeStats

if TYPE_CHECKING:
    from modelflow.buffer import Buffer

__all__ = ["Part", "PartFlow", "part_of", "started", "stop_all"]

# Seconds between two looks at whether anything moves.
_LOOK = 0.25


@dataclass(frozen=True)
class Part:
    """A part of a graph as it is sent to where it runs: what was written, and no object of it.

    Attributes:
        name: The far node.
        config: A graph of its own.
        units: Flow units that only the caller's code knows.
    """

    name: str
    config: FlowConfig
    units: tuple[Any, ...] = ()

    def moved(self, folder: Path, manifest: Manifest) -> "Part":
        """Returns a part of an archive's graph where the archive is unpacked on another machine."""
        config = replace(
            self.config,
            path=folder / manifest.graph,
            modules=tuple(folder / name for name in manifest.modules),
        )
        return replace(self, config=config)


def part_of(partition: Partition, units: Sequence[Any]) -> Part:
    """Returns a partition as it is sent.

    Args:
        partition: The partition.
        units: Flow units that only the caller's code knows.

    Raises:
        PlanError: its graph was not read from anything that can be sent.
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
            message = (
                f"node {node.name!r}: placement: its graph has no text that could be sent to "
                "another process; expected a graph file, a mapping or a FlowGraphDesc"
            )
            raise PlanError(message)
    edges = [
        EdgeConfig(
            PortRef(edge.source.node, edge.source.port), PortRef(edge.target.node, edge.target.port)
        )
        for edge in graph.edges
    ]
    path = graph.config.path
    config = replace(
        graph.config,
        path=None if path is None else path.absolute(),  # it may run in another folder
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
    """How many rows of a batch are not done; its own thread counts."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left


class PartFlow:
    """A part that runs. Safe to use from several threads: their batches share those inside."""

    def __init__(self, flow: Flow) -> None:
        """Takes the flow of the part's graph; starts nothing."""
        self._flow = flow
        self._outputs = flow.graph.outputs
        # In the order in which they came.
        self._batches: dict[_Batch, None] = {}

    @classmethod
    def of(cls, part: Part) -> Self:
        """Reads and checks a part that was sent here.

        Raises:
            ModelflowError: it cannot run here.
        """
        return cls(Flow(part.config, units=part.units))

    def start(self) -> Self:
        """Opens every unit.

        Raises:
            FlowFailed: a unit did not open.
        """
        self._flow.start()
        return self

    def stop(self) -> None:
        """Ends it at once; batches that are under way are answered with errors."""
        self._flow.stop(drain=False)

    def figures(self) -> dict[str, NodeStats]:
        """Returns what each of its nodes has done."""
        return dict(self._flow.stats())

    def answer(self, rows: Rows, on_move: Callable[[], None] | None = None) -> Answers:
        """Has a batch worked on: each row by itself, so that batches are made anew inside.

        A row that is past its deadline is an error and reaches no unit.

        Args:
            rows: The batch.
            on_move: Called now and then while something moves that the batch waits for.

        Raises:
            PartEndedError: a unit has ended the flow.
            StreamClosed: the flow was stopped, or has failed in another way.
        """
        batch = _Batch(len(rows))
        self._batches[batch] = None
        try:
            return self._answered(rows, batch, on_move)
        except StreamClosed as error:
            if said := self._said_at_end():
                raise PartEndedError(said) from error
            raise
        finally:
            del self._batches[batch]

    def _ahead(self, batch: "_Batch") -> int:
        """Returns how many rows are not done of a batch, and of those that came before it."""
        total = 0
        for other in list(self._batches):
            total += other.left
            if other is batch:
                break
        return total

    def _answered(self, rows: Rows, batch: "_Batch", on_move: Callable[[], None] | None) -> Answers:
        events: SimpleQueue[bool] = SimpleQueue()
        inputs = {port: buffers_of(column) for port, column in rows.columns.items()}

        def done(_: Request) -> None:
            events.put(True)

        requests = [
            Request(
                {port: (buffers[place],) for port, buffers in inputs.items()}, done, deadline=left
            )
            for place, left in enumerate(rows.remaining)
        ]
        try:
            self._see_through(requests, batch, events, on_move)
        except BaseException:  # nobody wants them any more, or nobody can do them
            for request in requests:
                request.cancel()
            raise
        found: dict[str, list[Buffer]] = {output: [] for output in self._outputs}
        for request in requests:
            answer = request.answer()
            for output, column in found.items():
                column.extend(answer[output])
        return Answers({output: column_of(column) for output, column in found.items()})

    def _see_through(
        self,
        requests: Sequence[Request],
        batch: "_Batch",
        events: "SimpleQueue[bool]",
        on_move: Callable[[], None] | None,
    ) -> None:
        """Submits requests, and waits until all are over: ``events`` has a True for each."""
        has_room = partial(events.put, False)
        unsent = self._flow.submit(requests, has_room)
        before, looked = self._ahead(batch), SYSTEM_CLOCK.now()
        while batch.left:
            with contextlib.suppress(Empty):
                if events.get(timeout=None if on_move is None else _LOOK):
                    batch.left -= 1
                else:
                    unsent = self._flow.submit(unsent, has_room)
            if on_move is not None and SYSTEM_CLOCK.now() - looked >= _LOOK:
                now, looked = self._ahead(batch), SYSTEM_CLOCK.now()
                if now < before:
                    on_move()
                before = now

    def _said_at_end(self) -> str:
        """Returns what a unit said that has ended the flow; "": none has."""
        try:
            self._flow.stop(drain=False)
        except FlowFailed as failure:
            for error in failure.exceptions:
                if isinstance(error.__cause__, EndFlow):
                    return str(error)
        return ""


def started(parts: Sequence[Part]) -> dict[str, PartFlow]:
    """Opens every unit of some parts; returns what runs, by the names of the parts.

    Raises:
        ModelflowError: one of them cannot run here; none does.
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
    """Ends parts at once."""
    for part in parts.values():
        part.stop()
