"""How a model gathers items into calls, as clients are told."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from modelflow.serve.statistics import model_node

if TYPE_CHECKING:
    from modelflow.flow import Flow

__all__ = ["Batching"]


@dataclass(frozen=True, slots=True)
class Batching:
    """What the node of a graph does whose calls count as the model's.

    Attributes:
        most: Items that one call takes.
        sizes: The numbers of items that calls may have; nothing: any.
        seconds: How long it waits for more.
    """

    most: int
    sizes: tuple[int, ...]
    seconds: float

    @classmethod
    def of(cls, flow: "Flow") -> "Batching":
        """Takes it of a flow that runs."""
        node = model_node(flow.stats().values())
        stage = flow.plan.nodes[node.node]
        sizes = tuple(stage.unit.allowed_batch_sizes)
        return cls(stage.batch_size, sizes, stage.batch_timeout)
