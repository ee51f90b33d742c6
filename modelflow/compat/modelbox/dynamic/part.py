"""What is described of a `ModelBoxEngine`'s graph: inputs, units, and what is connected."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from modelflow.buffer import Buffer
from modelflow.compat.modelbox.flow import FlowGraphDesc
from modelflow.graph.in_code import FlowNodeDesc, FlowPortDesc

if TYPE_CHECKING:
    from modelflow.compat.modelbox.dynamic.part_run import PartRun


_serials = itertools.count()


@dataclass(eq=False, kw_only=True)
class _Member:
    """What buffers come from."""

    consumers: "list[Step]" = field(default_factory=list)
    """The units that read it."""
    run: "PartRun | None" = None
    """What runs it; None: it is still described."""
    serial: int = field(default_factory=lambda: next(_serials))
    """What was described first comes first: a source before those that read it."""


@dataclass(eq=False, kw_only=True)
class Inlet(_Member):
    """An input of the graph, or a buffer that a unit was given in the place of one."""

    name: str
    waiting: list[Buffer] = field(default_factory=list)
    """What was pushed before it runs."""
    meta: dict[str, Any] = field(default_factory=dict)
    """What every buffer gets; alone, it is a buffer without data."""
    is_closed: bool = False
    is_constant: bool = False
    """It is a buffer: its graph may run at any time, and is the same for every other one."""


@dataclass(eq=False, kw_only=True)
class Step(_Member):
    """A unit at its place."""

    unit: str
    attributes: Mapping[str, Any]
    links: "dict[str | None, End]"
    """What each input reads; None: the only one."""
    outputs: tuple[str, ...] = ()
    wanted: set[str] = field(default_factory=set)
    """The outputs that are iterated over, though a unit reads them."""
    unwanted: set[str] = field(default_factory=set)
    """The outputs whose handler was closed."""


End = tuple[Inlet | Step, str | None]


class Part:
    """All that is connected to one member: what runs together."""

    def __init__(self, member: Inlet | Step) -> None:
        """Finds it, as it is now."""
        found, left = {member}, [member]
        while left:
            one = left.pop()
            sources = [end[0] for end in one.links.values()] if isinstance(one, Step) else []
            near = {*sources, *one.consumers} - found
            found |= near
            left += near
        self.members = sorted(found, key=lambda member: member.serial)
        self.inlets = [member for member in self.members if isinstance(member, Inlet)]
        self.steps = [member for member in self.members if isinstance(member, Step)]

    @property
    def is_constant(self) -> bool:
        """Tells whether all that it reads are buffers that are there."""
        has_sources = any(not step.links for step in self.steps)
        return not has_sources and all(inlet.is_constant for inlet in self.inlets)

    @property
    def results(self) -> list[tuple[Step, str]]:
        """What may be iterated over: outputs that no unit reads, and those that someone wants."""
        read = {end for step in self.steps for end in step.links.values()}
        return [
            (step, port)
            for step in self.steps
            for port in step.outputs
            if port in step.wanted or ((step, port) not in read and port not in step.unwanted)
        ]

    def describe(
        self, settings: Mapping[str, Any]
    ) -> tuple[FlowGraphDesc, dict[Inlet | Step, str], dict[tuple[Step, str], str]]:
        """Returns the part as a graph, the names of its nodes, and of its outputs."""
        desc = FlowGraphDesc()
        for name, value in settings.items():
            getattr(desc, name)(value)
        made: dict[Inlet | Step, FlowNodeDesc] = {}
        for member in self.members:
            if isinstance(member, Inlet):
                made[member] = desc.add_input(member.name)
            else:
                attributes = {"device": "cpu", **member.attributes}
                device = attributes.pop("device")
                source = {
                    port: FlowPortDesc(made[end], output)
                    for port, (end, output) in member.links.items()
                }
                made[member] = desc.add_node(member.unit, device, attributes, source)
        names = {member: node.name for member, node in made.items()}
        taken = set(names.values())
        free = (name for number in itertools.count() if (name := f"result{number}") not in taken)
        outputs = dict(zip(self.results, free, strict=False))
        for (step, port), name in outputs.items():
            desc.add_output(name, made[step][port])
        return desc, names, outputs
