"""A sample run of a graph with few items: the size of rows, and the time of nodes."""

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from modelflow.buffer import Buffer
from modelflow.flow import Flow
from modelflow.graph.graph import Graph
from modelflow.graph.graph_port import tensor_text
from modelflow.graph.node import Endpoint, Role
from modelflow.wire.tensor import TensorSpec


@dataclass(frozen=True, slots=True)
class PassedRows:
    """The rows that an output sent during a sample run.

    Attributes:
        rows: Number of rows.
        size: Mean bytes of a row.
        tensor: Type and shape of the rows if all were arrays of one type: ``UINT8 (?, ?, 3)``.
    """

    rows: int
    size: int
    tensor: str


@dataclass(frozen=True)
class Sample:
    """The results of a sample run.

    Attributes:
        items: Number of requests.
        failed: The errors of the failed requests.
        passed: The rows of each output, and of each input of the graph.
        busy_us: Node -> microseconds in its unit, for all rows together.
    """

    items: int
    failed: Sequence[Exception]
    passed: Mapping[Endpoint, PassedRows]
    busy_us: Mapping[str, float]


class _SampleWatcher:
    """Collects the sizes and types of the rows of an output."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.dtypes: set[np.dtype[Any] | None] = set()
        self.shapes: list[tuple[int, ...]] = []

    def add(self, buffer: Buffer) -> None:
        data = buffer.to("cpu").data
        if isinstance(data, np.ndarray):
            self.sizes.append(data.nbytes)
            self.dtypes.add(data.dtype)
            self.shapes.append(data.shape)
        else:
            self.sizes.append(_size_of(data))
            self.dtypes.add(None)

    def on_pass(self) -> PassedRows:
        rows = len(self.sizes)
        return PassedRows(rows, round(sum(self.sizes) / rows), self._tensor())

    def _tensor(self) -> str:
        (dtype, *others) = self.dtypes
        if dtype is None or others:
            return ""
        shape: tuple[int | None, ...] | None = None
        if len({len(shape) for shape in self.shapes}) == 1:
            extents = (set(extents) for extents in zip(*self.shapes, strict=True))
            shape = tuple(next(iter(each)) if len(each) == 1 else None for each in extents)
        try:
            return tensor_text(TensorSpec("", dtype, shape))
        except (KeyError, ValueError):  # the wire protocols have no name for this type
            return str(dtype)


def sample_of(graph: Graph, items: Sequence[Mapping[str, Any]]) -> Sample:
    """Runs all of a graph in this process, twice, and measures the second run.

    The first run warms up the units.

    Args:
        graph: The graph; nodes with a placement run in this process as well.
        items: The inputs of each request; few requests are enough.

    Raises:
        PlanError: This machine cannot run the graph.
        FlowFailed: A unit did not open, or ended the flow.
    """
    seen: dict[Endpoint, _SampleWatcher] = {}

    def tap(node: str, output: str, buffers: Sequence[Buffer]) -> None:
        for buffer in buffers:
            if buffer.error is None:
                seen.setdefault(Endpoint(node, output), _SampleWatcher()).add(buffer)

    with Flow(graph, threads=0, tap=tap) as flow:
        for _ in flow.map(items, errors="return"):
            pass
        seen.clear()
        before = flow.stats()
        answers = [answer for _, answer in flow.map(items, errors="return")]
        after = flow.stats()
    return Sample(
        len(answers),
        [answer for answer in answers if isinstance(answer, Exception)],
        {end: one.on_pass() for end, one in seen.items()},
        {
            name: 1e6 * (after[name].busy - before[name].busy)
            for name, node in graph.nodes.items()
            if node.role is Role.FLOWUNIT
        },
    )


def _size_of(data: Any) -> int:
    try:
        return len(pickle.dumps(data, protocol=5))
    except (pickle.PicklingError, TypeError, AttributeError):  # cannot be sent to a process anyway
        return 0
