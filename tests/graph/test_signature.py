import numpy as np

import modelflow
from modelflow.unit.port import Port

RESIZED = """digraph {
    image [type=input]  resize [image_width=32, image_height=16]  small [type=output]
    image -> resize -> small
}"""


def test_a_signature_names_inputs_and_outputs_with_what_the_units_declare():
    found = modelflow.Flow(RESIZED).signature()
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
    found = modelflow.Flow(text, units=[parted]).signature()
    assert [(port.name, port.is_single) for port in found.outputs] == [("a", False), ("b", False)]


def test_a_ports_shape_becomes_lengths_and_free_axes():
    tensor = Port("x", dtype="float32", shape="(H, 224, 3)").tensor
    assert tensor.shape == (None, 224, 3)
    assert Port("x", dtype="float32", shape="any of two forms").tensor.shape is None
    assert Port("x", shape="(3,)").tensor is None
