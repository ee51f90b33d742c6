import numpy as np
import pytest

import modelflow
from modelflow.errors import GraphError
from modelflow.graph.signature import signature_of
from modelflow.unit.port import Port
from modelflow.wire.tensor import TensorSpec

RESIZED = """digraph {
    image [type=input]  resize [image_width=32, image_height=16]  small [type=output]
    image -> resize -> small
}"""


def signature(flow):
    return signature_of(flow.graph, flow.scheduler)


def test_a_signature_names_inputs_and_outputs_with_what_the_units_declare():
    found = signature(modelflow.Flow(RESIZED))
    (image,), (small,) = found.inputs, found.outputs
    assert (image.name, small.name) == ("image", "small")
    assert image.tensor.dtype == np.uint8
    assert image.is_single
    assert small.is_single


def test_an_output_behind_a_condition_is_not_single():
    @modelflow.flowunit(outputs=("yes", "no"), kind="condition")
    def parted(x):
        return {"yes": x}

    text = """digraph { i [type=input] parted  a [type=output]  b [type=output]
        i -> parted  parted:yes -> a  parted:no -> b }"""
    found = signature(modelflow.Flow(text, units=[parted]))
    assert [(port.name, port.is_single) for port in found.outputs] == [("a", False), ("b", False)]


def test_a_ports_shape_becomes_lengths_and_free_axes():
    tensor = Port("x", dtype="float32", shape="(H, 224, 3)").tensor
    assert tensor.shape == (None, 224, 3)
    assert Port("x", dtype="float32", shape="any of two forms").tensor.shape is None
    assert Port("x", shape="(3,)").tensor is None


SAID = """
[serve.input.x]
{input}
[serve.output.y]
{output}
[graph]
graphconf = '''digraph {{ x [type=input] same y [type=output] x -> same -> y }}'''
"""


@modelflow.flowunit
def same(x):
    return x


class Loaded(modelflow.FlowUnit):
    """A unit whose ports are known only when the model is loaded."""

    SPEC = modelflow.FlowUnitSpec(
        "same",
        {"cpu": lambda: Loaded()},
        inputs=(Port("in"),),
        outputs=(Port("out"),),
        is_shared=True,
    )

    def tensors(self):
        return {"in": TensorSpec("in", np.dtype(np.float32), (None, 3))}

    def process(self, ctx):
        ctx.outputs["out"] = list(ctx.inputs["in"])


def said(given="", output="", unit=same):
    return modelflow.Flow(SAID.format(input=given, output=output), units=[unit])


def test_the_graph_file_says_what_nobody_else_knows():
    flow = said("datatype='BYTES'\nbatched=false", "datatype='FP32'\nshape=[-1,2]\nlabels=['a']")
    found = signature(flow)
    (x,), (y,) = found.inputs, found.outputs
    assert (x.tensor.dtype, x.tensor.shape, x.is_batched) == (np.dtype(object), None, False)
    assert (y.tensor.dtype, y.tensor.shape) == (np.float32, (None, 2))
    assert (y.labels, y.is_batched) == (("a",), True)
    assert str(x) == "x: BYTES, whole"
    assert str(y) == "y: FP32 (?, 2), an item a row, 1 labels"


def test_what_the_file_says_fills_what_a_model_leaves_free():
    with said("shape=[5, -1]", unit=Loaded) as flow:
        (x,) = signature(flow).inputs
        assert (x.tensor.dtype, x.tensor.shape) == (np.float32, (5, 3))
    assert signature(said("shape=[5, -1]", unit=Loaded)).inputs[0].tensor is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("datatype='FP64'", r"<text>:2: \[serve.input.x\]: says FP64; port 'in' of node 'same' is"),
        (
            "shape=[4, 4]",
            r"says \(4, 4\); port 'in' of node 'same' is FP32 \(\?, 3\); say the same",
        ),
        ("datatype='FP32'\nshape=[3]", r"says FP32 \(3,\); port 'in' of node 'same' is FP32"),
    ],
)
def test_a_contradiction_to_the_model_is_an_error_of_the_start(given, message):
    flow = said(given, unit=Loaded)
    with pytest.raises(GraphError, match=message):
        flow.start()
    assert not flow.is_running


def test_a_shape_without_a_type_is_an_error_of_the_start():
    flow = said(output="shape=[3]")
    with pytest.raises(GraphError, match=r"\[serve.output.y\]: has a shape, .*; add datatype"):
        flow.start()


def test_a_contradiction_to_a_unit_and_a_name_that_is_none_are_errors_of_the_check():
    text = RESIZED.replace("'", "")
    with pytest.raises(GraphError) as caught:
        modelflow.Flow(
            f"[serve.input.image]\ndatatype='FP32'\n[serve.output.smal]\n"
            f"[graph]\ngraphconf='''{text}'''"
        )
    assert [str(found) for found in caught.value.findings] == [
        "<text>:1: [serve.input.image]: says FP32; port 'in_image' of node 'resize' is UINT8 "
        "(?, ?, ?); say the same, or leave it out",
        "<text>:3: [serve.output.smal]: the graph has no output 'smal'; did you mean 'small'? "
        "(outputs: small)",
    ]
