"""The blocks of drawn graphs, in which a row stays a row of its stream.

A block can add its nodes to a graph. It can also compute, without the runtime's code, the results
of a session's *tokens* (its rows and ends, in order).
"""

from dataclasses import dataclass, replace
from typing import Any

from modelflow.unit import kind as kinds
from modelflow.unit.kind import Condition, Normal
from tests.properties.tokens import DIGIT, End, Row, fails_on, kept, low, plain_row
from tests.properties.units import (
    BranchUnit,
    JoinUnit,
    LoopUnit,
    MapUnit,
    SinkUnit,
    SplitUnit,
    joined,
)
from tests.runtime.graphs import spec_of


@dataclass
class Map:
    factor: int
    fails: int
    is_visible: bool
    settings: dict[str, Any]
    writes: str = ""  # the meta that the unit changes: of its "input" or of its "output"
    name: str = ""

    def build(self, drawing, sources):
        spec = spec_of(lambda: MapUnit(self), is_exception_visible=True, name="map")
        settings = {**self.settings, "is_exception_visible": self.is_visible}
        self.name = drawing.add(spec, settings, {"in": sources})
        return [self.name]

    @property
    def marks(self):
        return {self.name: True, "last": self.name} if self.writes else {}

    def value(self, value):
        fails_on(value, self.fails)
        return kept(value, low(value) * self.factor + 1)

    def run(self, tokens, expected):
        return [t if isinstance(t, End) else self._row(t.at(self.name)) for t in tokens]

    def _row(self, row):
        if row.is_bad and not self.is_visible:
            return row
        row = replace(row, value=-1) if row.is_bad else row.become(self.name, self.value)
        if row.is_bad and self.writes != "input":
            return row
        return replace(row, meta={**row.meta, **self.marks})


@dataclass
class Chain:
    blocks: list[Any]

    def build(self, drawing, sources):
        for block in self.blocks:
            sources = block.build(drawing, sources)
        return sources

    def run(self, tokens, expected):
        for block in self.blocks:
            tokens = block.run(tokens, expected)
        return tokens


@dataclass
class Join:
    """Two paths with the same streams that end in one node."""

    settings: dict[str, Any]
    name: str = ""

    def build(self, drawing, left, right):
        spec = spec_of(JoinUnit, inputs=("a", "b"), name="join")
        self.name = drawing.add(spec, self.settings, {"a": left, "b": right})
        return [self.name]

    def run(self, left, right):
        return [self._token(a, b) for a, b in zip(left, right, strict=True)]

    def _token(self, a, b):
        if isinstance(a, End):
            assert a == b
            return a
        assert (a.stream, a.position) == (b.stream, b.position)
        is_late = a.is_late or b.is_late
        a = replace(a, is_late=is_late).at(self.name)
        bad = next((row for row in (a, b) if row.is_bad), None)
        if bad is not None:
            return replace(bad, is_late=is_late)
        return replace(a, value=joined(a.value, b.value), meta={**b.meta, **a.meta})


@dataclass
class Fork:
    left: Chain
    right: Chain
    settings: dict[str, Any]

    def __post_init__(self):
        self.join = Join(self.settings)

    def build(self, drawing, sources):
        left = self.left.build(drawing, sources)
        return self.join.build(drawing, left, self.right.build(drawing, sources))

    def run(self, tokens, expected):
        left, right = self.left.run(tokens, expected), self.right.run(tokens, expected)
        return self.join.run(left, right)


@dataclass
class Split:
    """A unit with two outputs, whose paths meet."""

    is_passing: bool
    left: Chain
    right: Chain
    settings: dict[str, Any]
    name: str = ""

    def __post_init__(self):
        self.join = Join(self.settings)

    def build(self, drawing, sources):
        spec = spec_of(lambda: SplitUnit(self), outputs=("x", "y"), name="split")
        self.name = drawing.add(spec, self.settings, {"in": sources})
        left = self.left.build(drawing, [f"{self.name}:x"])
        return self.join.build(drawing, left, self.right.build(drawing, [f"{self.name}:y"]))

    def run(self, tokens, expected):
        given = [t if isinstance(t, End) else t.at(self.name) for t in tokens]
        left, right = self.left.run(given, expected), self.right.run(given, expected)
        return self.join.run(left, right)


@dataclass
class Branch:
    """A condition whose branches meet; ``is_partial`` omits the last branch."""

    branches: list[Any]
    fails: int
    is_batched: bool
    is_partial: bool
    settings: dict[str, Any]
    name: str = ""

    def build(self, drawing, sources):
        ports = tuple(f"p{i}" for i in range(len(self.branches)))
        spec = spec_of(
            lambda: BranchUnit(self),
            outputs=ports,
            kind=Condition(),
            name="branch",
            batch_size=4 if self.is_batched else None,
        )
        self.name = drawing.add(spec, self.settings, {"in": sources})
        ends = []
        for port, branch in zip(ports, self.branches, strict=True):
            end = branch.build(drawing, [f"{self.name}:{port}"])
            if not (self.is_partial and port == ports[-1]):
                ends += end
        return ends

    def port(self, value):
        fails_on(value, self.fails)
        return low(value) % len(self.branches)

    def _routed(self, row):
        """Returns the row after the condition, and the number of its branch."""
        row = row.at(self.name)
        if not row.is_bad:
            routed = row.become(self.name, self.port)
            return (routed, 0) if routed.is_bad else (row, routed.value)
        return row, 0

    def run(self, tokens, expected):
        parted = [[] for _ in self.branches]
        for token in tokens:
            if isinstance(token, End):
                for part in parted:
                    part.append(token)
            else:
                row, port = self._routed(token)
                parted[port].append(row)
        found: dict[Any, Row] = {}
        for place, (branch, part) in enumerate(zip(self.branches, parted, strict=True)):
            results = branch.run(part, expected)
            if not (self.is_partial and place == len(parted) - 1):
                rows = (token for token in results if isinstance(token, Row))
                found |= {(row.stream, row.position): row for row in rows}
        return [
            t if isinstance(t, End) else found[t.stream, t.position]
            for t in tokens
            if isinstance(t, End) or (t.stream, t.position) in found
        ]


@dataclass
class Loop:
    """Goes round ``value % 3`` times; the body keeps the digits that count the rounds."""

    level: int
    body: Chain
    settings: dict[str, Any]
    name: str = ""

    def __post_init__(self):
        self.around = Fork(self.body, Chain([]), self.settings)

    def build(self, drawing, sources):
        spec = spec_of(
            lambda: LoopUnit(self), outputs=("back", "exit"), kind=kinds.Loop(), name="loop"
        )
        self.name = drawing.add(spec, self.settings, {"in": sources})
        back = self.around.build(drawing, [f"{self.name}:back"])
        drawing.edges += [f"{source} -> {self.name}:in" for source in back]
        return [f"{self.name}:exit"]

    def turn(self, value):
        digit = DIGIT * 10**self.level
        rounds = value // digit % 10
        if rounds >= value % 3:
            return "exit", value - rounds * digit
        return "back", value + digit

    def run(self, tokens, expected):
        return [token if isinstance(token, End) else self._around(token) for token in tokens]

    def _around(self, row):
        while not (row := row.at(self.name)).is_bad:
            port, value = self.turn(row.value)
            row = replace(row, value=value)
            if port == "exit":
                break
            (row,) = (t for t in self.around.run([row], None) if isinstance(t, Row))
        return row


@dataclass
class Tap:
    """A second consumer: an output of the graph, or a sink."""

    is_output: bool
    fails: int
    settings: dict[str, Any]
    name: str = ""

    def build(self, drawing, sources):
        if self.is_output:
            self.name = drawing.output(sources)
        else:
            spec = spec_of(
                lambda: SinkUnit(self), outputs=(), name="sink", kind=Normal(is_per_stream=True)
            )
            # One thread, and no batch that is tried again: then each row is recorded once, and in
            # order.
            settings = {**self.settings, "threads": 1, "batch_size": 1}
            self.name = drawing.add(spec, settings, {"in": sources})
        return sources

    def value(self, value):
        fails_on(value, self.fails)
        return value

    def run(self, tokens, expected):
        rows = [token for token in tokens if isinstance(token, Row)]
        if self.is_output:
            expected.outputs[self.name] = [plain_row(row) for row in rows]
            return tokens
        given = [row.at(self.name) for row in rows]
        given = [row if row.is_bad else row.become(self.name, self.value) for row in given]
        expected.errors += sum(row.is_bad for row in given)
        expected.sinks[self.name] = [row.value for row in given if not row.is_bad]
        return tokens
