"""Attributes of every node, each declared once: type, default, limits, help text.

The reference manual, the graph reader and the plan read the declarations here. A new attribute is a
field of `NodeOptions`, and its value is in ``UnitPlan.settings``. A stage may run several nodes,
joined by ``fuse`` or by the graph. `StagePlan.unit` is only the first of these nodes. A node with
an attribute is not fused unless ``_OF_UNITS`` of ``plan/fuse.py`` names the attribute. `obstacle`
of ``plan/chain.py`` explains why a requested fusion is not possible.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from modelflow.unit.option import option

DEFAULT_QUEUE_SIZE = 32
_POSITIVE: Any = {"minimum": 1, "maximum": 1 << 30}


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """The attributes of a node, as graph files name them; with None the plan chooses the value."""

    batch_size: int | None = option(
        None,
        help="Maximum buffers in a call of the unit. Default: the graph's batch_size, then the "
        "unit's own, then 8 for normal units and 1 for others.",
        **_POSITIVE,
    )
    queue_size: int | None = option(
        None,
        help="Maximum buffers in each input queue. Default: the graph's queue_size, then 32.",
        **_POSITIVE,
    )
    queue_bytes: int | None = option(
        None,
        help="Maximum bytes in all input queues together, in addition to queue_size.",
        **_POSITIVE,
    )
    threads: int | None = option(
        None, help="Worker threads. Default: chosen by the plan.", minimum=1, maximum=1024
    )
    workers: Literal["thread", "process"] = option(
        "thread", help="process: run a Python unit in worker processes."
    )
    batch_timeout_ms: float = option(
        0.0,
        help="Maximum time in milliseconds that a buffer waits for its batch to fill.",
        minimum=0,
        maximum=3_600_000,
    )
    allowed_batch_sizes: tuple[int, ...] = option(
        (),
        help="Inference: the batch sizes that the model is called with ('1,4,8'). A batch is "
        "padded to the next size with rows that reach no output. The largest size is batch_size.",
        **_POSITIVE,
    )
    split_size: int = option(
        0,
        help="Maximum buffers of one session in a batch while other sessions wait. Small requests "
        "then pass a request of many buffers. queue_size then limits the waiting buffers of each "
        "session. 0: batches in order of arrival.",
        minimum=0,
        maximum=1 << 20,
    )
    cpu_affinity: str = option(
        "",
        help="The processors for the node's threads, and for the threads that an engine starts "
        "from them ('0-3,6'). Default: all.",
    )
    queue_policy: Literal["block", "reject"] = option(
        "block", help="reject: fail with QueueFullError instead of waiting."
    )
    fuse: str = option(
        "",
        help="Neighbours with the same name run as one stage, on the same threads and without a "
        "queue between them. They must be normal units with equal threads, batch_size and device.",
    )
    placement: str = option(
        "",
        help="The kind of machine ([placement.NAME]) that runs the node if the graph is "
        "distributed ('modelflow ray', 'modelflow serve --on'). Otherwise without effect.",
    )
    is_exception_visible: bool = option(False, help="Pass buffers with an error to the unit.")


@dataclass(frozen=True, slots=True)
class NodeSettings(NodeOptions):
    """The converted attributes of one node, with the attributes of single inputs."""

    queue_sizes: Mapping[str, int] = field(default_factory=dict)
    """Input port -> ``queue_size_PORT``, the limit of its queue."""
    inherited: frozenset[str] = frozenset()
    """The attributes whose value is the graph's default, not set by the node."""

    @property
    def given(self) -> frozenset[str]:
        """The attributes that the node itself sets to a value other than the default."""
        changed = [name for name, default in _DEFAULTS if getattr(self, name) != default]
        return frozenset(changed) - {"inherited"} - self.inherited


_DEFAULTS = tuple(
    (field.name, getattr(NodeSettings(), field.name)) for field in fields(NodeSettings)
)
