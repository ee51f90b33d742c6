"""A whole flow in Ray Data: ``dataset.map_batches(FlowActor, ...)``."""

from collections.abc import Mapping, Sequence
from typing import Any

from modelflow.flow import Flow


class FlowActor:
    """A callable class for ``ray.data.Dataset.map_batches``, whose actors run the whole graph.

    ::

        dataset.map_batches(
            FlowActor,
            fn_constructor_kwargs={"graph": "graph.toml", "column": "bytes"},
            batch_size=64,
            concurrency=2,
        )

    A batch is sent through the graph as requests. Each output of the graph becomes a column with
    its name. A column ``error`` has the error of each row, or ``""``. One bad row therefore fails
    alone, and large arrays between the nodes never enter the object store.
    """

    def __init__(self, graph: str, column: str, **options: Any) -> None:
        """Starts the flow.

        Args:
            graph: As for `Flow`, on the machine of the actor.
            column: The column of a batch that is sent to the graph's only input.
            options: As for `Flow`: ``overrides``, ``args``.

        Raises:
            FlowFailed: A unit did not open.
        """
        self._column = column
        self._flow = Flow(graph, **options).start()
        self._outputs = self._flow.graph.outputs

    def __call__(self, batch: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
        """Returns the batch with the columns of the results in place of its input column."""
        found: dict[str, list[Any]] = {name: [] for name in (*self._outputs, "error")}
        for _, answer in self._flow.map(batch[self._column], errors="return"):
            is_bad = isinstance(answer, Exception)
            found["error"].append(str(answer) if is_bad else "")
            for output in self._outputs:
                one = None if is_bad else answer if len(self._outputs) == 1 else answer[output]
                found[output].append(None if one is None else one.data)
        kept = {name: column for name, column in batch.items() if name != self._column}
        return {**kept, **found}
