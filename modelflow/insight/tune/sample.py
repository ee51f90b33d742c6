"""What a run of a few items shows of a graph: how large rows are, and what nodes take for them."""

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
    """What an output gave.

    Attributes:
        rows: How many rows.
        size: Their bytes on average.
        tensor: Their type and shape, where all were arrays of one type: ``UINT8 (?, ?, 3)``.
    """

    rows: int
    size: int
    tensor: str


@dataclass(frozen=True)
class Sample:
    """What a run has shown.

    Attributes:
        items: How many requests it had.
        failed: The errors of those that failed.
        passed: By output, what it gave; of an input of the graph as well.
        busy_us: By node, the microseconds in its unit, of all rows together.
    """

    items: int
    failed: Sequence[Exception]
    passed: Mapping[Endpoint, PassedRows]
    busy_us: Mapping[str, float]


class _SampleWatcher:
    """What an output has given so far."""

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
        except (KeyError, ValueError):  # no type of a model's
            return str(dtype)


def sample_of(graph: Graph, items: Sequence[Mapping[str, Any]]) -> Sample:
    """Runs a graph here, all of it, twice: what a unit does when it begins is of no interest.

    Args:
        graph: What it places runs here as well.
        items: What each request takes, by input; few.

    Raises:
        PlanError: this machine cannot run it.
        FlowFailed: a unit did not open, or has ended the flow.
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
    except (pickle.PicklingError, TypeError, AttributeError):  # it crosses to nobody
        return 0
