"""Whole drawn graphs (inputs, a chain, sources), and hypothesis' strategies for them."""

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from tests.properties.blocks import Branch, Chain, Fork, Join, Loop, Map, Split, Tap
from tests.properties.drawing import Drawing
from tests.properties.fusing import fuse_wherever, without_own
from tests.properties.stream_blocks import Delay, Expand, Repeat
from tests.properties.tokens import LOW, End, Expected, Row
from tests.properties.units import SourceUnit
from tests.runtime.graphs import graph_of, spec_of


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

    def expected(self, count=None):
        """Returns the results of the source's session; ``count`` limits the rows."""
        values = range(self.count if count is None else count)
        return expected_of(
            self.block, [Row((), place, value) for place, value in enumerate(values)]
        )


def expected_of(block, rows):
    """Returns the results of a session that begins with ``rows``."""
    expected = Expected()
    block.run([*rows, End(())], expected)
    return expected


@dataclass
class Program:
    """A whole graph: its inputs, joined in sequence, the block behind them, and its sources."""

    inputs: int
    block: Chain
    max_in_flight: int | None
    sources: list[Any] = field(default_factory=list)
    fuse: str = "off"
    """The neighbours that become one stage: "named", unnamed ("auto"), or none ("off")."""

    def __post_init__(self):
        self.joins = [Join({}) for _ in range(self.inputs - 1)]

    def graph(self):
        drawing = Drawing()
        names = [f"in{i}" for i in range(self.inputs)]
        drawing.nodes |= dict.fromkeys(names, "input")
        sources = names[:1]
        for join, name in zip(self.joins, names[1:], strict=True):
            sources = join.build(drawing, sources, [name])
        self.block.build(drawing, sources)
        for source in self.sources:
            source.build(drawing)
        nodes, edges = drawing.nodes, drawing.edges
        match self.fuse:
            case "named":
                nodes = fuse_wherever(nodes, edges)
            case "auto":
                nodes = {name: without_own(node) for name, node in nodes.items()}
        return graph_of(nodes, edges, max_in_flight=self.max_in_flight, fuse=self.fuse)

    def columns(self, values):
        """Returns the values to send to each input for the rows ``values``."""
        return {f"in{n}": [v + n for v in values] for n in range(self.inputs)}

    def expected(self, values, late=()):
        """Returns the results of a session for ``values``, with the places ``late`` too late.

        Call `graph` before.
        """
        found, *others = [
            [Row((), place, v, is_late=place in late) for place, v in enumerate(column)]
            for column in self.columns(values).values()
        ]
        for join, other in zip(self.joins, others, strict=True):
            found = join.run(found, other)
        return expected_of(self.block, found)


# -- strategies ---------------------------------------------------------------------------------


@st.composite
def _settings(draw):
    return {
        "threads": draw(st.integers(1, 4)),
        "batch_size": draw(st.integers(1, 5)),
        "queue_size": draw(st.integers(1, 4)),
        "batch_timeout_ms": draw(st.sampled_from([0.0, 0.0, 0.0, 1.0])),
    }


# For normal units, whose sessions alternate.
_split = st.sampled_from([{}, {}, {"split_size": 1}])
_fails = st.sampled_from([0, 0, 0, 5, 11])
_writes = st.sampled_from(["", "input", "output"])


@st.composite
def _chain(draw, size, depth, loops, *, is_free):
    """Draws a chain of blocks; with ``is_free``, the output need not match the input."""
    count = draw(st.integers(0, min(3, size)))
    return Chain([draw(_block(size - 1, depth, loops, is_free=is_free)) for _ in range(count)])


def _kinds(size, depth, loops, is_free):
    kinds = ["map", "map"]
    if size > 0:
        kinds += ["fork", "split", "branch", "expand"] + ["loop"] * (loops < 2)
    if loops == 0 or depth > 0:
        kinds += ["delay", *(["repeat", "event"] if is_free else [])]
    return kinds + ["tap"] * (loops == 0)


@st.composite
def _block(draw, size, depth, loops, *, is_free):
    kind = draw(st.sampled_from(_kinds(size, depth, loops, is_free)))
    settings = draw(_settings())
    inner = {"size": size - 1, "depth": depth, "loops": loops, "is_free": False}
    match kind:
        case "map":
            settings |= draw(_split)
            is_visible, writes = draw(st.booleans()), draw(_writes)
            return Map(draw(st.integers(1, 9)), draw(_fails), is_visible, settings, writes)
        case "fork":
            settings |= draw(_split)
            return Fork(draw(_chain(**inner)), draw(_chain(**inner)), settings)
        case "split":
            settings |= draw(_split)
            left, right = draw(_chain(**inner)), draw(_chain(**inner))
            return Split(draw(st.booleans()), left, right, settings)
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
            delay = draw(st.sampled_from([0.0, 0.0, 0.001])) if kind == "event" else 0.0
            return Repeat(kind == "event", settings, depth, delay)


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
    fuse = draw(st.sampled_from(["off", "named", "auto"]))
    return Program(draw(st.integers(1, 2)), chain, in_flight, sources, fuse)


sessions = st.lists(st.lists(st.integers(0, LOW - 1), max_size=12), min_size=1, max_size=3)
