"""Connected inputs and units of a `ModelBoxEngine`'s graph, and their runs."""

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
    """A source of buffers."""

    consumers: "list[Step]" = field(default_factory=list)
    """The units that read this member."""
    run: "PartRun | None" = None
    """The run of the member. None while the graph is still being described."""
    serial: int = field(default_factory=lambda: next(_serials))
    """The order of description: a source comes before its readers."""


@dataclass(eq=False, kw_only=True)
class Inlet(_Member):
    """An input of the graph, or a buffer that a unit got instead of an input."""

    name: str
    waiting: list[NativeBuffer] = field(default_factory=list)
    """The buffers that were pushed before the graph runs."""
    meta: dict[str, Any] = field(default_factory=dict)
    """The meta values of every buffer. Without pushed buffers they form a buffer without data."""
    is_closed: bool = False
    is_constant: bool = False
    """Whether the inlet is a buffer. Its graph can run at any time and serve other buffers, too."""


@dataclass(eq=False, kw_only=True)
class Step(_Member):
    """A unit in the graph."""

    unit: str
    attributes: Mapping[str, Any]
    links: "dict[str | None, End]"
    """The source of each input; the key None is the only input."""
    outputs: tuple[str, ...] = ()
    wanted: set[str] = field(default_factory=set)
    """The outputs that the program iterates over, although a unit reads them."""
    unwanted: set[str] = field(default_factory=set)
    """The outputs whose handler was closed."""


End = tuple[Inlet | Step, str | None]


class Part:
    """All members that are connected to a member and run together."""

    def __init__(self, member: Inlet | Step) -> None:
        """Finds the members that are connected now."""
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
        """True if the part reads only existing buffers."""
        has_sources = any(not step.links for step in self.steps)
        return not has_sources and all(inlet.is_constant for inlet in self.inlets)

    @property
    def results(self) -> list[tuple[Step, str]]:
        """The outputs for iteration: outputs without reader, and outputs that the program wants."""
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
        """Returns the part as a graph, with the names of its nodes and of its outputs."""
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
    """A session of a running flow, and the sessions of its sources.

    Results of other outputs are stored while the program waits for one output, because a program
    reads outputs one after the other. For one thread.

    Attributes:
        is_over: Whether all results have arrived and, if the run owns the flow, the flow has ended.
        is_owner: Whether the run owns the flow.
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
            inlets: The inputs, and their names in the flow.
            outputs: The results, and their names in the flow.
            is_owner: Whether the flow ends with this run. Otherwise other runs use the flow as
                well.
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
        """Sends the buffers that wait at the inputs; raises as `send`."""
        for inlet in self._inlets:
            if self._session is not None:
                self._session.meta.update(inlet.meta)
            waiting = inlet.waiting or ([NativeBuffer()] if inlet.meta else [])
            inlet.waiting = []
            for buffer in waiting:
                self.send(inlet, buffer)
        self.close_inputs()

    def send(self, inlet: Inlet, buffer: NativeBuffer) -> None:
        """Sends one buffer, and waits while the graph is full.

        Raises:
            StreamError: The flow has failed, or was ended.
        """
        assert self._session is not None  # a part with inlets has a session
        for key, value in inlet.meta.items():
            buffer.meta.setdefault(key, value)
        self._session.send(self._inlets[inlet], buffer)

    def close_inputs(self) -> None:
        """Closes the input once all inlets are closed."""
        if self._session is not None and all(inlet.is_closed for inlet in self._inlets):
            self._session.close_input()

    def take(self, step: Step, port: str) -> Buffer | None:
        """Waits for the next buffer of a result; returns None at its end.

        Raises:
            ModelflowError: The output is no result of this run, or a unit without outputs failed.
            FlowFailed: The flow itself failed.
        """
        name = self._outputs.get((step, port))
        if name is None:
            raise ModelflowError(
                f"{step.unit!r}: its graph already runs, and {port!r} is no result of it; iterate "
                "over it, or keep its handler open, before taking the first result"
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
        """Drops the stored buffers of a result, now and in the future."""
        name = self._outputs.get((step, port))
        if name is not None:
            self._kept[name] = deque(maxlen=0)

    def _gather(self, gathering: Gathering) -> None:
        try:
            gathering.wait()
            for name in gathering.results:
                gathering.take_ready(name, self._kept[name])
        except StreamError:
            self._flow.stop()  # raises the error of the flow, if it failed
            raise

    def finish(self) -> None:
        """Waits until all sent buffers are processed, and drops the remaining results.

        Raises:
            FlowUnitError: The first error of units without outputs.
            FlowFailed: The flow itself failed.
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
        """Ends the run at once.

        Raises:
            FlowFailed: The flow itself failed.
        """
        self.is_over = True
        if self._session is not None:
            self._session.cancel()
        if self.is_owner:
            self._flow.stop(drain=False)
