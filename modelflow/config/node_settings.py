"""The attributes that every node may have, each declared once: type, default, bounds, meaning.

The reference manual, the graph reader and the plan read them here. A new attribute is a field of
`NodeOptions`; whoever obeys it finds its value in ``UnitPlan.settings``. A stage may run several
nodes, joined by ``fuse`` or by the graph: `StagePlan.unit` is only the first of them. A node with
an attribute stays apart unless ``_OF_UNITS`` of ``plan/fuse.py`` names it; what speaks against a
join that was asked for is said by `obstacle` of ``plan/chain.py``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from modelflow.unit.option import option

_POSITIVE: Any = {"minimum": 1, "maximum": 1 << 30}


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """The attributes of a node, as graph files name them; None: the plan chooses."""

    batch_size: int | None = option(
        None,
        help="Most buffers a call of the unit gets; none: the graph's, else the unit's own, else 8 "
        "for normal units and 1 for the others.",
        **_POSITIVE,
    )
    queue_size: int | None = option(
        None,
        help="Bound of each input queue, in buffers; none: the graph's, else 32.",
        **_POSITIVE,
    )
    queue_bytes: int | None = option(
        None, help="A second bound of the queues, in bytes.", **_POSITIVE
    )
    threads: int | None = option(
        None, help="Worker threads; none: as planned.", minimum=1, maximum=1024
    )
    workers: Literal["thread", "process"] = option(
        "thread", help="process: a Python unit runs in worker processes."
    )
    batch_timeout_ms: float = option(
        0.0,
        help="Longest wait in milliseconds to fill a batch once one buffer waits.",
        minimum=0,
        maximum=3_600_000,
    )
    allowed_batch_sizes: tuple[int, ...] = option(
        (),
        help="Inference: the sizes of batch that the model is called with ('1,4,8'); a batch is "
        "filled up to the next with rows that reach no output. The largest is batch_size.",
        **_POSITIVE,
    )
    split_size: int = option(
        0,
        help="Most buffers of one session in a batch while others wait, so that a request of many "
        "buffers lets small ones through; queue_size then bounds what one session has waiting "
        "here. 0: as they come.",
        minimum=0,
        maximum=1 << 20,
    )
    cpu_affinity: str = option(
        "",
        help="The processors that the node's threads may use ('0-3,6'), and the threads that an "
        "engine starts from them; none: any.",
    )
    queue_policy: Literal["block", "reject"] = option(
        "block", help="reject: refuse with QueueFullError instead of waiting."
    )
    fuse: str = option(
        "",
        help="Neighbours that bear the same name run as one stage: on the same threads, without a "
        "queue between them. For normal units with the same threads, batch_size and device.",
    )
    placement: str = option(
        "",
        help="The kind of machine, one of [placement.NAME], that the node runs on where the graph "
        "is run on several ('modelflow ray', 'modelflow serve --on'); elsewhere without effect.",
    )
    is_exception_visible: bool = option(False, help="The unit is given buffers in error.")


@dataclass(frozen=True, slots=True)
class NodeSettings(NodeOptions):
    """The attributes of one node, converted, with those of its single inputs."""

    queue_sizes: Mapping[str, int] = field(default_factory=dict)
    """``queue_size_PORT``: the bound of that input's queue, by port."""
    inherited: frozenset[str] = frozenset()
    """The attributes whose value is the graph's default, not the node's own."""

    @property
    def given(self) -> frozenset[str]:
        """The attributes that the node itself sets to something else than their default."""
        changed = [name for name, default in _DEFAULTS if getattr(self, name) != default]
        return frozenset(changed) - {"inherited"} - self.inherited


_DEFAULTS = tuple(
    (field.name, getattr(NodeSettings(), field.name)) for field in fields(NodeSettings)
)
