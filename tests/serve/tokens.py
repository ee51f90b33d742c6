"""A unit that gives many buffers for one input, a buffer each call."""

import threading

import numpy as np

import modelflow

GRAPH = """digraph m {
    input [type=input]
    tokens []
    output [type=output]
    input -> tokens -> output
}"""


class Tokens:
    """Counts up to its input; each number but the first waits for `go`, unless ``is_free`` is set.

    With a negative number, the unit fails halfway.
    """

    def __init__(self, *, is_free=False, size=None):
        self.made = []
        self.began = threading.Semaphore(0)
        self.go = threading.Semaphore(0)
        self.ended = threading.Semaphore(0)
        tokens = self

        class Unit(modelflow.FlowUnit):
            SPEC = modelflow.FlowUnitSpec(
                "tokens",
                {"cpu": lambda: Unit()},
                inputs=(modelflow.Port("in"),),
                outputs=(modelflow.Port("out"),),
                kind=modelflow.Stream(),
            )

            def process(self, ctx):
                if ctx.event is None:
                    (buffer,) = ctx.input()
                    number, most = 0, int(np.asarray(buffer.data).item())
                    tokens.began.release()
                else:
                    number, most = ctx.event
                    if not is_free:
                        tokens.go.acquire()
                if most < 0 and number == -most // 2:
                    raise modelflow.BadRequest("half of it is enough")
                ctx.emit([number if size is None else bytes(size)])
                tokens.made.append(number)
                if number + 1 < abs(most):
                    ctx.send_event((number + 1, most))

            def stream_end(self, ctx):
                tokens.ended.release()

        self.unit = Unit

    def flow(self, **options):
        """Returns a flow of the unit, with one input and one output of any number of buffers."""
        return modelflow.Flow(GRAPH, units=[self.unit], **options)
