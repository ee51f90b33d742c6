"""A part of a `ModelBoxEngine`'s graph: inputs, units, what is connected; and while it runs."""

import itertools
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from modelflow.buffer import Buffer as NativeBuffer
from modelflow.compat.modelbox.buffer import Buffer
from modelflow.compat.modelbox.flow import FlowGraphDesc
from modelflow.compat.modelbox.gathering import Gathering
from modelflow.errors import ModelflowError, StreamError
from modelflow.flow import Flow
from modelflow.graph.in_code import FlowNodeDesc, FlowPortDesc

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
    waiting: list[NativeBuffer] = field(default_factory=list)
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


class PartRun:
    """One session of a running flow, and the sessions of its sources.

    What comes of one output while another is waited for is kept, since a program reads one behind
    the other. To be used by one thread.

    Attributes:
        is_over: Everything has come out; the flow, where it is this run's own, has ended.
        is_owner: The flow is this run's own.
    """

    def __init__(
        self,
        flow: Flow,
        inlets: Mapping[Inlet, str],
        outputs: Mapping[tuple[Step, str], str],
        *,
        is_owner: bool,
    ) -> None:
        """Opens the sessions; sends nothing yet.

        Args:
            flow: The running flow.
            inlets: The inputs, and their names there.
            outputs: The results, and their names there.
            is_owner: The flow ends with this run; else others use it as well.
        """
        self.is_over = False
        self._flow = flow
        self.is_owner = is_owner
        self._inlets = dict(inlets)
        self._outputs = dict(outputs)
        sources: list[str | None] = [*([None] if inlets else []), *flow.scheduler.sources]
        self._gatherings = [Gathering(flow, source) for source in sources]
        self._session = self._gatherings[0].stream if inlets else None
        self._kept: dict[str, deque[NativeBuffer]] = {
            name: deque() for gathering in self._gatherings for name in gathering.results
        }

    def begin(self) -> None:
        """Sends what waits at the inputs; raises as `send`."""
        for inlet in self._inlets:
            if self._session is not None:
                self._session.meta.update(inlet.meta)
            waiting = inlet.waiting or ([NativeBuffer()] if inlet.meta else [])
            inlet.waiting = []
            for buffer in waiting:
                self.send(inlet, buffer)
        self.close_inputs()

    def send(self, inlet: Inlet, buffer: NativeBuffer) -> None:
        """Sends one buffer; waits while the graph is full.

        Raises:
            StreamError: the flow has failed, or was ended.
        """
        assert self._session is not None  # as above
        for key, value in inlet.meta.items():
            buffer.meta.setdefault(key, value)
        self._session.send(self._inlets[inlet], buffer)

    def close_inputs(self) -> None:
        """Ends the input, where every part of it is closed."""
        if self._session is not None and all(inlet.is_closed for inlet in self._inlets):
            self._session.close_input()

    def take(self, step: Step, port: str) -> Buffer | None:
        """Waits for the next buffer of a result; None where it has ended.

        Raises:
            ModelflowError: it is no result of this run; or a unit without outputs failed.
            FlowFailed: the flow itself failed.
        """
        name = self._outputs.get((step, port))
        if name is None:
            raise ModelflowError(
                f"{step.unit!r}: its graph runs already, and {port!r} is no result of it; iterate "
                "over it, or hold its handler open, before the first result is taken"
            )
        kept = self._kept[name]
        gathering = next(one for one in self._gatherings if name in one.results)
        while not kept and name not in gathering.ended:
            self._gather(gathering)
        if kept:
            return Buffer(kept.popleft())
        if all(gathering.is_over for gathering in self._gatherings):
            self.finish()
        return None

    def drop(self, step: Step, port: str) -> None:
        """Lets go what is kept of a result that nobody wants any more."""
        name = self._outputs.get((step, port))
        if name is not None:
            self._kept[name] = deque(maxlen=0)

    def _gather(self, gathering: Gathering) -> None:
        try:
            gathering.wait()
            for name in gathering.results:
                gathering.take_ready(name, self._kept[name])
        except StreamError:
            self._flow.stop()  # raises what the flow failed of
            raise

    def finish(self) -> None:
        """Waits until all that was sent has passed; what nobody has taken is dropped.

        Raises:
            FlowUnitError: the first error of units without outputs.
            FlowFailed: the flow itself failed.
        """
        if self.is_over:
            return
        for inlet in self._inlets:
            inlet.is_closed = True
        self.close_inputs()
        for gathering in self._gatherings:
            while not gathering.is_over:
                self._gather(gathering)
            gathering.stream.wait()
        self.is_over = True
        if self.is_owner:
            self._flow.stop()
        for gathering in self._gatherings:
            for error in gathering.stream.errors:
                raise error

    def abort(self) -> None:
        """Ends it at once.

        Raises:
            FlowFailed: the flow itself failed.
        """
        self.is_over = True
        if self._session is not None:
            self._session.cancel()
        if self.is_owner:
            self._flow.stop(drain=False)
