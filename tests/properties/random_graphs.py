"""Random graphs of all kinds of unit, and what they must give: a sequential interpreter.

A graph is drawn as nested blocks. A block can add its nodes to a graph, and can say, without any
of the runtime's code, what becomes of a session's *tokens*: its rows and ends, in order.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from modelflow.buffer import Buffer
from modelflow.unit.kind import Kind
from modelflow.unit.unit import FlowUnit
from tests.runtime.graphs import graph_of, spec_of

# Values are below this; loops count their rounds in the digits above.
LOW = 9973
DIGIT = 10**4


@dataclass(frozen=True)
class Bad:
    """An error, by the node that it stems from and its text."""

    node: str
    text: str


@dataclass(frozen=True)
class Row:
    stream: tuple[Any, ...]
    position: int
    value: object


@dataclass(frozen=True)
class End:
    stream: tuple[Any, ...]


def low(value):
    return value % LOW if value < DIGIT else (value % DIGIT) % LOW


def kept(value, new):
    """``new`` with the loops' digits of ``value``."""
    return value - value % DIGIT + new % LOW


@dataclass
class Drawing:
    """A graph while it is put together."""

    nodes: dict[str, Any] = field(default_factory=dict)
    edges: list[str] = field(default_factory=list)
    count: int = 0

    def add(self, spec, settings, feeds):
        """Adds a node; ``feeds``: input port -> the endpoints that feed it. Returns its name."""
        name = f"n{self.count}"
        self.count += 1
        self.nodes[name] = (spec, settings)
        for port, sources in feeds.items():
            self.edges += [f"{source} -> {name}:{port}" for source in sources]
        return name

    def output(self, sources):
        name = f"out{self.count}"
        self.count += 1
        self.nodes[name] = "output"
        self.edges += [f"{source} -> {name}" for source in sources]
        return name


@dataclass
class Expected:
    """What one session gives: per output and per sink its values, and how many errors end."""

    outputs: dict[str, Any] = field(default_factory=dict)
    sinks: dict[str, Any] = field(default_factory=dict)
    errors: int = 0


class UnitError(ValueError):
    """What the units of these graphs raise."""


# -- units --------------------------------------------------------------------------------------


class MapUnit(FlowUnit):
    def __init__(self, block):
        self.block = block

    def process(self, ctx):
        if self.block.is_visible:
            ctx.emit([-1 if b.error else self.block.value(b.data) for b in ctx.input()])
        else:
            ctx.emit([self.block.value(b.data) for b in ctx.input()])


class JoinUnit(FlowUnit):
    def process(self, ctx):
        pairs = zip(ctx.inputs["a"], ctx.inputs["b"], strict=True)
        ctx.emit([joined(a.data, b.data) for a, b in pairs])


def join_spec():
    return spec_of(JoinUnit, inputs=("a", "b"), name="join")


def joined(a, b):
    return kept(b, low(a) * 3 + low(b))


class BranchUnit(FlowUnit):
    def __init__(self, block):
        self.block = block

    def process(self, ctx):
        rows = ctx.input()
        ports = [self.block.port(b.data) for b in rows]
        if len(rows) == 1 or not self.block.is_batched:
            for port, row in zip(ports, rows, strict=True):
                ctx.outputs[f"p{port}"].append(row)
            return
        for place, (name, values) in enumerate(ctx.outputs.items()):
            assert name == f"p{place}"
            values += [r if p == place else None for p, r in zip(ports, rows, strict=True)]


class ExpandUnit(FlowUnit):
    def __init__(self, block):
        self.block = block

    def process(self, ctx):
        (buffer,) = ctx.input()
        ctx.emit(self.block.children(buffer.data))


class CollapseUnit(FlowUnit):
    def process(self, ctx):
        ctx.emit([collapsed([buffer.data for buffer in ctx.input()])])


def collapsed(values):
    total = 7
    for value in values:
        total = (total * 31 + low(value)) % LOW
    return total


class LoopUnit(FlowUnit):
    def __init__(self, block):
        self.block = block

    def process(self, ctx):
        (buffer,) = ctx.input()
        port, value = self.block.turn(buffer.data)
        ctx.outputs[port].append(value)


class DelayUnit(FlowUnit):
    """Keeps the count and a running sum, and gives each value ``delay`` values later."""

    def __init__(self, block):
        self.block = block

    def process(self, ctx):
        for buffer in ctx.input():
            ctx.emit(self.block.step(ctx.state, buffer.data))

    def stream_end(self, ctx):
        ctx.emit(list(ctx.state.get("held", ())))


class RepeatUnit(FlowUnit):
    """Drops and multiplies, and tells the sum at the end."""

    def process(self, ctx):
        for buffer in ctx.input():
            ctx.state["sum"] = ctx.state.get("sum", 0) + low(buffer.data)
            ctx.emit([buffer.data] * (low(buffer.data) % 3))

    def stream_end(self, ctx):
        ctx.emit([ctx.state.get("sum", 0) % LOW])


class EventUnit(FlowUnit):
    """Drops and multiplies, a value a call: each call sends the event that brings the next."""

    def process(self, ctx):
        waiting = ctx.state.setdefault("waiting", deque())
        for buffer in ctx.input():
            copies = 1 if buffer.error else low(buffer.data) % 4
            waiting.extend([buffer] * copies)
        if ctx.event is not None:
            ctx.state["is_called"] = False
            ctx.emit([waiting.popleft()])
        if waiting and not ctx.state.get("is_called"):
            ctx.state["is_called"] = True
            assert ctx.send_event()


class SinkUnit(FlowUnit):
    def __init__(self, block):
        self.block = block

    def process(self, ctx):
        for buffer in ctx.input():
            ctx.session.setdefault(self.block.name, []).append(self.block.value(buffer.data))


# -- blocks -------------------------------------------------------------------------------------


@dataclass
class Map:
    factor: int
    fails: int  # 0: never, else where value % fails == 1
    is_visible: bool
    settings: dict[str, Any]
    name: str = ""

    def build(self, drawing, sources):
        spec = spec_of(lambda: MapUnit(self), is_exception_visible=True, name="map")
        settings = {**self.settings, "is_exception_visible": self.is_visible}
        self.name = drawing.add(spec, settings, {"in": sources})
        return [self.name]

    def value(self, value):
        if self.fails and low(value) % self.fails == 1:
            text = f"fails on {low(value)}"
            raise UnitError(text)
        return kept(value, low(value) * self.factor + 1)

    def run(self, tokens, expected):
        return [token if isinstance(token, End) else self._row(token) for token in tokens]

    def _row(self, row):
        if isinstance(row.value, Bad):
            return Row(row.stream, row.position, -1) if self.is_visible else row
        return Row(row.stream, row.position, guarded(self.name, self.value, row.value))


def guarded(name, function, value):
    try:
        return function(value)
    except UnitError as error:
        return Bad(name, str(error))


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
class Fork:
    left: Chain
    right: Chain
    settings: dict[str, Any]

    def build(self, drawing, sources):
        feeds = {"a": self.left.build(drawing, sources), "b": self.right.build(drawing, sources)}
        return [
            drawing.add(spec_of(JoinUnit, inputs=("a", "b"), name="join"), self.settings, feeds)
        ]

    def run(self, tokens, expected):
        left, right = self.left.run(tokens, expected), self.right.run(tokens, expected)
        return [joined_tokens(a, b) for a, b in zip(left, right, strict=True)]


def joined_tokens(a, b):
    if isinstance(a, End):
        assert a == b
        return a
    assert (a.stream, a.position) == (b.stream, b.position)
    bad = next((row.value for row in (a, b) if isinstance(row.value, Bad)), None)
    return Row(a.stream, a.position, joined(a.value, b.value) if bad is None else bad)


@dataclass
class Branch:
    """A condition whose branches meet; the last one is left out where ``is_partial``."""

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
            kind=Kind.CONDITION,
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
        if self.fails and low(value) % self.fails == 1:
            text = f"fails on {low(value)}"
            raise UnitError(text)
        return low(value) % len(self.branches)

    def run(self, tokens, expected):
        parted = [[] for _ in self.branches]
        order: list[Any] = []
        for token in tokens:
            if isinstance(token, End):
                for part in parted:
                    part.append(token)
                order.append(token)
                continue
            value, port = token.value, 0
            if not isinstance(value, Bad):
                answer = guarded(self.name, self.port, value)
                value, port = (answer, 0) if isinstance(answer, Bad) else (value, answer)
            parted[port].append(Row(token.stream, token.position, value))
            order.append((token.stream, token.position))
        found: dict[Any, Row] = {}
        for place, (branch, part) in enumerate(zip(self.branches, parted, strict=True)):
            results = branch.run(part, expected)
            if not (self.is_partial and place == len(parted) - 1):
                rows = (token for token in results if isinstance(token, Row))
                found |= {(row.stream, row.position): row for row in rows}
        return [
            token if isinstance(token, End) else found[token]
            for token in order
            if isinstance(token, End) or token in found
        ]


@dataclass
class Expand:
    most: int
    fails: int
    body: Chain
    settings: dict[str, Any]
    name: str = ""

    def build(self, drawing, sources):
        spec = spec_of(lambda: ExpandUnit(self), kind=Kind.EXPAND, name="expand")
        self.name = drawing.add(spec, self.settings, {"in": sources})
        inside = self.body.build(drawing, [self.name])
        spec = spec_of(CollapseUnit, kind=Kind.COLLAPSE, name="collapse")
        return [drawing.add(spec, self.settings, {"in": inside})]

    def children(self, value):
        if self.fails and low(value) % self.fails == 1:
            text = f"fails on {low(value)}"
            raise UnitError(text)
        return [(low(value) * 5 + i) % LOW for i in range(low(value) % self.most)]

    def expanded(self, tokens):
        for token in tokens:
            if isinstance(token, End):
                yield token
                continue
            child = (token.stream, token.position)
            found = token.value
            if not isinstance(found, Bad):
                found = guarded(self.name, self.children, found)
            for place, value in enumerate([found] if isinstance(found, Bad) else found):
                yield Row(child, place, value)
            yield End(child)

    def run(self, tokens, expected):
        outer = {token.stream for token in tokens}
        outer |= {stream[0] for stream in outer if stream}
        results, gathered = [], []
        for token in self.body.run(list(self.expanded(tokens)), expected):
            if isinstance(token, Row):
                gathered.append(token.value)
            elif token.stream in outer or not token.stream:
                results.append(token)
            else:
                bad = next((value for value in gathered if isinstance(value, Bad)), None)
                value = collapsed(gathered) if bad is None else bad
                results.append(Row(token.stream[0], token.stream[1], value))
                gathered = []
        return results


@dataclass
class Loop:
    """Goes round ``value % 3`` times; the way round keeps the digits in which it counts."""

    level: int
    body: Chain
    settings: dict[str, Any]
    name: str = ""

    def build(self, drawing, sources):
        spec = spec_of(
            lambda: LoopUnit(self), outputs=("back", "exit"), kind=Kind.LOOP, name="loop"
        )
        self.name = drawing.add(spec, self.settings, {"in": sources})
        around = Fork(self.body, Chain([]), self.settings).build(drawing, [f"{self.name}:back"])
        drawing.edges += [f"{source} -> {self.name}:in" for source in around]
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
        around = Fork(self.body, Chain([]), {})
        while not isinstance(row.value, Bad):
            port, value = self.turn(row.value)
            row = Row(row.stream, row.position, value)
            if port == "exit":
                break
            (row,) = (t for t in around.run([row], None) if isinstance(t, Row))
        return row


@dataclass
class Delay:
    delay: int
    settings: dict[str, Any]

    def build(self, drawing, sources):
        spec = spec_of(lambda: DelayUnit(self), kind=Kind.STREAM, is_same_count=True, name="delay")
        return [drawing.add(spec, self.settings, {"in": sources})]

    def step(self, state, value):
        held = state.setdefault("held", [])
        state["sum"] = state.get("sum", 0) + low(value)
        held.append(kept(value, state["sum"]))
        return [held.pop(0)] if len(held) > self.delay else []

    def run(self, tokens, expected):
        states, given = {}, {}
        for token in tokens:
            if isinstance(token, Row) and not isinstance(token.value, Bad):
                state = states.setdefault(token.stream, {})
                given.setdefault(token.stream, []).extend(self.step(state, token.value))
        for stream, state in states.items():
            given[stream] += state["held"]
        found = []
        for token in tokens:
            if isinstance(token, Row) and not isinstance(token.value, Bad):
                found.append(Row(token.stream, token.position, given[token.stream].pop(0)))
            else:
                found.append(token)
        return found


@dataclass
class Repeat:
    is_by_event: bool
    settings: dict[str, Any]
    depth: int

    def build(self, drawing, sources):
        make = EventUnit if self.is_by_event else RepeatUnit
        spec = spec_of(make, kind=Kind.STREAM, is_exception_visible=True, name="repeat")
        settings = {**self.settings, "is_exception_visible": self.is_by_event}
        return [drawing.add(spec, settings, {"in": sources})]

    def run(self, tokens, expected):
        results, counts, sums = [], {}, {}

        def give(stream, value):
            results.append(Row(stream, counts.get(stream, 0), value))
            counts[stream] = counts.get(stream, 0) + 1

        for token in tokens:
            stream = token.stream
            if isinstance(token, End):
                if depth_of(stream) == self.depth and not self.is_by_event:
                    give(stream, sums.get(stream, 0) % LOW)
                results.append(token)
            elif isinstance(token.value, Bad):
                give(stream, token.value)
            else:
                sums[stream] = sums.get(stream, 0) + low(token.value)
                for _ in range(low(token.value) % (4 if self.is_by_event else 3)):
                    give(stream, token.value)
        return results


def depth_of(stream):
    return 0 if not stream else 1 + depth_of(stream[0])


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
            spec = spec_of(lambda: SinkUnit(self), outputs=(), name="sink", is_per_stream=True)
            # One thread, and no batch that is tried again: what it notes is in order, and once.
            settings = {**self.settings, "threads": 1, "batch_size": 1}
            self.name = drawing.add(spec, settings, {"in": sources})
        return sources

    def value(self, value):
        if self.fails and low(value) % self.fails == 1:
            text = f"fails on {low(value)}"
            raise UnitError(text)
        return value

    def run(self, tokens, expected):
        values = [token.value for token in tokens if isinstance(token, Row)]
        if self.is_output:
            expected.outputs[self.name] = values
            return tokens
        given = [v if isinstance(v, Bad) else guarded(self.name, self.value, v) for v in values]
        expected.errors += sum(isinstance(value, Bad) for value in given)
        expected.sinks[self.name] = [value for value in given if not isinstance(value, Bad)]
        return tokens


class SourceUnit(FlowUnit):
    """Gives the numbers from 0, a few a call."""

    def __init__(self, count):
        self.count = count

    def process(self, ctx):
        first = ctx.state.get("next", 0)
        ctx.state["next"] = first + 3
        ctx.emit(list(range(first, min(first + 3, self.count))))
        if first + 3 >= self.count:
            ctx.finish()


@dataclass
class Source:
    """A source with a chain of its own."""

    count: int
    block: Chain
    name: str = ""

    def build(self, drawing):
        spec = spec_of(lambda: SourceUnit(self.count), inputs=(), name="source")
        self.name = drawing.add(spec, {}, {})
        self.block.build(drawing, [self.name])

    def expected(self):
        return expected_of(self.block, range(self.count))


def expected_of(block, values):
    """What a session gives whose rows are ``values``."""
    expected = Expected()
    rows = [Row((), position, value) for position, value in enumerate(values)]
    block.run([*rows, End(())], expected)
    return expected


@dataclass
class Program:
    """A whole graph: its inputs, joined in turn, the block behind them, and its sources."""

    inputs: int
    block: Chain
    max_in_flight: int | None
    sources: list[Any] = field(default_factory=list)

    def graph(self):
        drawing = Drawing()
        names = [f"in{i}" for i in range(self.inputs)]
        drawing.nodes |= dict.fromkeys(names, "input")
        sources = names[:1]
        for name in names[1:]:
            feeds = {"a": sources, "b": [name]}
            sources = [drawing.add(join_spec(), {}, feeds)]
        self.block.build(drawing, sources)
        for source in self.sources:
            source.build(drawing)
        return graph_of(drawing.nodes, drawing.edges, max_in_flight=self.max_in_flight)

    def expected(self, columns):
        """What a session gives to which ``columns`` were sent; call `graph` before."""
        found = []
        for values in zip(*columns, strict=True):
            value = values[0]
            for other in values[1:]:
                value = joined(value, other)
            found.append(value)
        return expected_of(self.block, found)


def plain(buffer: Buffer):
    """What a buffer that came out is in the interpreter's terms."""
    if buffer.error is None:
        return buffer.data
    return Bad(buffer.error.node, str(buffer.error.__cause__))


# -- strategies ---------------------------------------------------------------------------------


@st.composite
def _settings(draw):
    return {
        "threads": draw(st.integers(1, 4)),
        "batch_size": draw(st.integers(1, 5)),
        "queue_size": draw(st.integers(1, 4)),
    }


_fails = st.sampled_from([0, 0, 0, 5, 11])


@st.composite
def _chain(draw, size, depth, loops, *, is_free):
    """Draws a chain of blocks. ``is_free``: what comes out need not match what goes in."""
    count = draw(st.integers(0, min(3, size)))
    return Chain([draw(_block(size - 1, depth, loops, is_free=is_free)) for _ in range(count)])


@st.composite
def _block(draw, size, depth, loops, *, is_free):  # noqa: C901 - a case a kind
    kinds = ["map", "map"]
    if size > 0:
        kinds += ["fork", "branch", "expand"]
        if loops < 2:
            kinds.append("loop")
    is_inside = loops > 0 and depth == 0
    if not is_inside:
        kinds.append("delay")
        if is_free:
            kinds += ["repeat", "event"]
    if loops == 0:
        kinds.append("tap")
    kind = draw(st.sampled_from(kinds))
    settings = draw(_settings())
    inner = {"size": size - 1, "depth": depth, "loops": loops, "is_free": False}
    match kind:
        case "map":
            return Map(draw(st.integers(1, 9)), draw(_fails), draw(st.booleans()), settings)
        case "fork":
            return Fork(draw(_chain(**inner)), draw(_chain(**inner)), settings)
        case "branch":
            count = draw(st.integers(2, 3))
            branches = [draw(_chain(**inner)) for _ in range(count)]
            is_partial = is_free and loops == 0 and draw(st.booleans())
            if is_partial:
                branches[-1].blocks.append(Tap(False, 0, settings))
            return Branch(branches, draw(_fails), draw(st.booleans()), is_partial, settings)
        case "expand":
            inner |= {"depth": depth + 1, "is_free": True}
            return Expand(draw(st.integers(1, 5)), draw(_fails), draw(_chain(**inner)), settings)
        case "loop":
            inner |= {"depth": 0, "loops": loops + 1}
            return Loop(loops, draw(_chain(**inner)), settings)
        case "delay":
            return Delay(draw(st.integers(0, 3)), settings)
        case "tap":
            return Tap(draw(st.booleans()), draw(_fails), settings)
        case _:
            return Repeat(kind == "event", settings, depth)


@st.composite
def programs(draw, size=4):
    """Draws a `Program`, with at least one output."""
    blocks = [draw(_block(size, 0, 0, is_free=True)) for _ in range(draw(st.integers(1, 4)))]
    chain = Chain([*blocks, Tap(True, 0, {})])
    in_flight = draw(st.sampled_from([None, None, 1, 5]))
    sources = []
    for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
        block = Chain([draw(_block(2, 0, 0, is_free=True)), Tap(draw(st.booleans()), 0, {})])
        sources.append(Source(draw(st.integers(0, 12)), block))
    return Program(draw(st.integers(1, 2)), chain, in_flight, sources)


sessions = st.lists(st.lists(st.integers(0, LOW - 1), max_size=12), min_size=1, max_size=3)
