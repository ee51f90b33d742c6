"""Tests of an examination whose experiments are not possible."""

import modelflow
from modelflow.insight.doctor import Case, Cause
from modelflow.insight.doctor.examination import Examination
from modelflow.insight.doctor.finding import Confidence
from tests.doctor.cases import case_of, node

GRAPH = """digraph one { fuse=off input [type=input] picky [threads=1, batch_size=1]
    output [type=output] input -> picky -> output }"""


class Picky(modelflow.FlowUnit):
    opened = 0

    def open(self, config):
        type(self).opened += 1
        if type(self).opened > 1:
            raise RuntimeError("the device is in use")

    def process(self, ctx):
        ctx.emit([buffer.data for buffer in ctx.inputs["in"]])


def test_threads_that_could_not_be_tried_are_no_proof_that_calls_wait_for_each_other(monkeypatch):
    case = case_of(node("picky", busy=1.0, queue=20, batch_size=1), is_driven=True)
    monkeypatch.setattr(Case, "between", lambda *_, **__: case)
    spec = modelflow.FlowUnitSpec(
        "picky",
        {"cpu": Picky},
        inputs=(modelflow.Port("in"),),
        outputs=(modelflow.Port("out"),),
        threads=1,
        max_batch_size=1,  # so only threads are tried
    )
    Picky.opened = 0
    with modelflow.Flow(GRAPH, units=[spec]) as flow:

        def wait(_):
            for number in range(16):
                flow.infer(number)
            return False

        found, _ = Examination(flow, wait, is_driven=True).run()
    assert [(one.cause, one.confidence) for one in found.findings] == [
        (Cause.CAPACITY, Confidence.LOW)
    ]
    assert any("the device is in use" in note for note in found.notes)
