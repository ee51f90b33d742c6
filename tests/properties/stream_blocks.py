"""The blocks that work on whole streams: they make or end streams, or keep a state per stream."""

from dataclasses import dataclass, replace
from typing import Any

from modelflow.unit import kind as kinds
from modelflow.unit.kind import Collapse, Count, Stream
from tests.properties.blocks import Chain
from tests.properties.tokens import LOW, Bad, End, Row, depth_of, fails_on, kept, low
from tests.properties.units import (
    CollapseUnit,
    DelayUnit,
    EventUnit,
    ExpandUnit,
    RepeatUnit,
    collapsed,
)
from tests.runtime.graphs import spec_of


@dataclass
class Expand:
    most: int
    fails: int
    body: Chain
    settings: dict[str, Any]
    name: str = ""
    collapse: str = ""

    def build(self, drawing, sources):
        spec = spec_of(lambda: ExpandUnit(self), kind=kinds.Expand(), name="expand")
        self.name = drawing.add(spec, self.settings, {"in": sources})
        inside = self.body.build(drawing, [self.name])
        spec = spec_of(CollapseUnit, kind=Collapse(), name="collapse")
        self.collapse = drawing.add(spec, self.settings, {"in": inside})
        return [self.collapse]

    def children(self, value):
        fails_on(value, self.fails)
        return [(low(value) * 5 + i) % LOW for i in range(low(value) % self.most)]

    def expanded(self, tokens):
        for token in tokens:
            if isinstance(token, End):
                yield token
                continue
            child = (token.stream, token.position)
            row = token.at(self.name)
            if not row.is_bad:
                row = row.become(self.name, self.children)
            if row.is_bad:
                yield replace(row, stream=child, position=0)
            else:
                for place, value in enumerate(row.value):
                    yield Row(child, place, value, row.meta)
            yield End(child)

    def run(self, tokens, expected):
        origins = {(t.stream, t.position): t.meta for t in tokens if isinstance(t, Row)}
        outer = {token.stream for token in tokens}
        outer |= {stream[0] for stream in outer if stream}
        results, gathered = [], []
        for token in self.body.run(list(self.expanded(tokens)), expected):
            if isinstance(token, Row):
                gathered.append(token)
            elif token.stream in outer or not token.stream:
                results.append(token)
            else:
                results.append(self._gathered(token.stream, gathered, origins))
                gathered = []
        return results

    def _gathered(self, stream, rows, origins):
        is_late = any(row.is_late for row in rows)
        if is_late and not any(row.is_bad for row in rows):
            rows = [replace(rows[0], is_late=True).at(self.collapse)]
        bad = next((row for row in rows if row.is_bad), None)
        place = {"stream": stream[0], "position": stream[1], "is_late": is_late}
        if bad is not None:
            return replace(bad, **place)
        value = collapsed([row.value for row in rows])
        return Row(value=value, meta=origins[stream], **place)


def arrived(node, row):
    """Returns the row as received by a stream unit: a late row goes on without its deadline."""
    given = row.at(node)
    return given if given is row else replace(given, is_late=False)


@dataclass
class Delay:
    delay: int
    settings: dict[str, Any]
    name: str = ""

    def build(self, drawing, sources):
        spec = spec_of(lambda: DelayUnit(self), kind=Stream(Count.SAME), name="delay")
        self.name = drawing.add(spec, self.settings, {"in": sources})
        return [self.name]

    def step(self, state, value):
        held = state.setdefault("held", [])
        state["sum"] = state.get("sum", 0) + low(value)
        held.append(kept(value, state["sum"]))
        return [held.pop(0)] if len(held) > self.delay else []

    def run(self, tokens, expected):
        tokens = [t if isinstance(t, End) else arrived(self.name, t) for t in tokens]
        states, given = {}, {}
        for token in tokens:
            if isinstance(token, Row) and not token.is_bad:
                state = states.setdefault(token.stream, {})
                given.setdefault(token.stream, []).extend(self.step(state, token.value))
        for stream, state in states.items():
            given[stream] += state["held"]
        return [
            replace(token, value=given[token.stream].pop(0))
            if isinstance(token, Row) and not token.is_bad
            else token
            for token in tokens
        ]


@dataclass
class Repeat:
    is_by_event: bool
    settings: dict[str, Any]
    depth: int
    delay: float = 0.0  # seconds before an event
    name: str = ""

    def build(self, drawing, sources):
        make = (lambda: EventUnit(self)) if self.is_by_event else RepeatUnit
        spec = spec_of(make, kind=Stream(), is_exception_visible=True, name="repeat")
        settings = {**self.settings, "is_exception_visible": self.is_by_event}
        self.name = drawing.add(spec, settings, {"in": sources})
        return [self.name]

    def run(self, tokens, expected):
        results, counts, sums = [], {}, {}

        def give(row):
            place = counts[row.stream] = counts.get(row.stream, -1) + 1
            results.append(replace(row, position=place))

        for token in tokens:
            stream = token.stream
            if isinstance(token, End):
                if depth_of(stream) == self.depth and not self.is_by_event:
                    give(Row(stream, 0, sums.get(stream, 0) % LOW))
                results.append(token)
                continue
            row = arrived(self.name, token)
            if isinstance(row.value, Bad):
                give(row)
                continue
            sums[stream] = sums.get(stream, 0) + low(row.value)
            for _ in range(low(row.value) % (4 if self.is_by_event else 3)):
                give(row if self.is_by_event else replace(row, meta={}))
        return results
