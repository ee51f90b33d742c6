"""The units of the drawn graphs, with the computations of their blocks."""

from collections import deque

from modelflow.buffer import Buffer
from modelflow.unit.unit import FlowUnit
from tests.properties.tokens import LOW, kept, low


class MapUnit(FlowUnit):
    """Maps values; writes to the meta of its input, of its output, or of neither."""

    def __init__(self, block):
        self.block = block

    def process(self, ctx):
        for buffer in ctx.input():
            if self.block.writes == "input":
                self._mark(buffer)
            value = -1 if buffer.error else self.block.value(buffer.data)
            if self.block.writes == "output":
                value = Buffer(value)
                self._mark(value)
            ctx.emit([value])

    def _mark(self, buffer):
        for key, value in self.block.marks.items():
            buffer.set(key, value)


class JoinUnit(FlowUnit):
    def process(self, ctx):
        pairs = zip(ctx.inputs["a"], ctx.inputs["b"], strict=True)
        ctx.emit([joined(a.data, b.data) for a, b in pairs])


def joined(a, b):
    return kept(b, low(a) * 3 + low(b))


class SplitUnit(FlowUnit):
    """Gives the same buffers, or values, on both outputs."""

    def __init__(self, block):
        self.block = block

    def process(self, ctx):
        given = ctx.input() if self.block.is_passing else [b.data for b in ctx.input()]
        for port in ("x", "y"):
            ctx.emit(given, port)


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
    """Counts and sums its values, and emits each value ``delay`` values later."""

    def __init__(self, block):
        self.block = block

    def process(self, ctx):
        for buffer in ctx.input():
            ctx.emit(self.block.step(ctx.state, buffer.data))

    def stream_end(self, ctx):
        ctx.emit(list(ctx.state.get("held", ())))


class RepeatUnit(FlowUnit):
    """Drops and multiplies values, and emits their sum at the end."""

    def process(self, ctx):
        for buffer in ctx.input():
            ctx.state["sum"] = ctx.state.get("sum", 0) + low(buffer.data)
            ctx.emit([buffer.data] * (low(buffer.data) % 3))

    def stream_end(self, ctx):
        ctx.emit([ctx.state.get("sum", 0) % LOW])


class EventUnit(FlowUnit):
    """Drops and multiplies values, one a call: each call sends the event for the next."""

    def __init__(self, block):
        self.block = block

    def process(self, ctx):
        waiting = ctx.state.setdefault("waiting", deque())
        for buffer in ctx.input():
            copies = 1 if buffer.error else low(buffer.data) % 4
            waiting.extend([buffer] * copies)
        if ctx.event is not None:
            ctx.state["is_called"] = False
            ctx.emit([waiting.popleft()])
        if waiting and not ctx.state.get("is_called"):
            # A draining flow has no delays, and a flow that is cut off accepts no event.
            is_called = ctx.send_event(delay=self.block.delay) or ctx.send_event()
            ctx.state["is_called"] = is_called


class SinkUnit(FlowUnit):
    def __init__(self, block):
        self.block = block

    def process(self, ctx):
        for buffer in ctx.input():
            ctx.session.setdefault(self.block.name, []).append(self.block.value(buffer.data))


class SourceUnit(FlowUnit):
    """Emits the numbers from 0, a few each call."""

    def __init__(self, count):
        self.count = count

    def process(self, ctx):
        first = ctx.state.get("next", 0)
        ctx.state["next"] = first + 3
        ctx.emit(list(range(first, min(first + 3, self.count))))
        if first + 3 >= self.count:
            ctx.finish()
