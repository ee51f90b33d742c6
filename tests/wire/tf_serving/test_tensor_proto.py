import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from modelflow.wire.problem import Code, Problem
from modelflow.wire.proto import TF_SERVING
from modelflow.wire.tf_serving.tensor_proto import (
    array_of_proto,
    dtype_of,
    fill_proto,
    type_number,
)

NUMBERS = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64", "complex64", "complex128"]  # fmt: skip
TYPES = TF_SERVING.enum("tensorflow.DataType")


def proto(kind, shape, **fields):
    return TF_SERVING["tensorflow.TensorProto"](
        dtype=TYPES[kind], tensor_shape={"dim": [{"size": extent} for extent in shape]}, **fields
    )


@given(
    st.sampled_from(NUMBERS).flatmap(
        lambda name: hnp.arrays(name, hnp.array_shapes(min_dims=0, min_side=0))
    ),
    st.booleans(),
)
def test_an_array_comes_back_bit_for_bit_in_both_forms(array, as_content):
    tensor = TF_SERVING["tensorflow.TensorProto"]()
    fill_proto(tensor, array, as_content=as_content)
    found = array_of_proto(
        TF_SERVING.parse("tensorflow.TensorProto", tensor.SerializeToString()), "x"
    )
    np.testing.assert_array_equal(found, array)
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    assert dtype_of(type_number(array.dtype), "x") == array.dtype


@given(hnp.arrays("O", hnp.array_shapes(), elements=st.binary()))
def test_bytes_come_back(array):
    tensor = TF_SERVING["tensorflow.TensorProto"]()
    fill_proto(tensor, array)
    np.testing.assert_array_equal(array_of_proto(tensor, "x"), array)


@pytest.mark.parametrize("as_content", [False, True])
def test_tensorflow_reads_what_is_written_and_the_other_way_round(as_content):
    tf = pytest.importorskip("tensorflow", reason="tensorflow is not installed")
    rng = np.random.default_rng(0)
    for name in (*NUMBERS, "bfloat16", "object"):
        numbers = rng.integers(0, 2, (2, 3))
        array = np.array([[b"a", b"\xff"]], object) if name == "object" else numbers.astype(name)
        ours = TF_SERVING["tensorflow.TensorProto"]()
        fill_proto(ours, array, as_content=as_content)
        theirs = tf.make_tensor_proto(array)
        np.testing.assert_array_equal(
            tf.make_ndarray(type(theirs).FromString(ours.SerializeToString())), array
        )
        read = TF_SERVING.parse("tensorflow.TensorProto", theirs.SerializeToString())
        np.testing.assert_array_equal(array_of_proto(read, "x"), array)


def test_content_is_viewed_not_copied():
    array = array_of_proto(proto("DT_FLOAT", [2], tensor_content=bytes(8)), "x")
    assert not array.flags.owndata
    assert not array.flags.writeable


@pytest.mark.parametrize(
    ("tensor", "expected"),
    [
        (proto("DT_FLOAT", [3], float_val=[1, 2]), [1, 2, 2]),
        (proto("DT_FLOAT", [2, 2], float_val=[5]), [[5, 5], [5, 5]]),
        (proto("DT_FLOAT", [2]), [0, 0]),
        (proto("DT_FLOAT", [0]), []),
        (proto("DT_INT32", [], int_val=[7]), 7),
        (proto("DT_UINT8", [2], int_val=[255]), [255, 255]),
        (proto("DT_INT8", [2], int_val=[-1]), [-1, -1]),
        (proto("DT_HALF", [2], half_val=[0x3C00, 0xC000]), [1, -2]),
        (proto("DT_BFLOAT16", [2], half_val=[0x3F80]), [1, 1]),
        (proto("DT_BOOL", [2], bool_val=[True]), [True, True]),
        (proto("DT_COMPLEX64", [2], scomplex_val=[1, 2]), [1 + 2j, 1 + 2j]),
        (proto("DT_STRING", [3], string_val=[b"a", b"b"]), [b"a", b"b", b"b"]),
        (proto("DT_STRING", [1]), [b""]),
    ],
)
def test_values_that_are_left_out_are_the_last_one_again(tensor, expected):
    assert array_of_proto(tensor, "x").tolist() == expected


@pytest.mark.parametrize(
    ("tensor", "said"),
    [
        (proto("DT_FLOAT", [2], float_val=[1, 2, 3]), r"x: 3 values in float_val; expected 2 at most for shape \[2\]"),
        (proto("DT_FLOAT", [2], tensor_content=b"123"), "3 bytes in tensor_content; expected 8 for DT_FLOAT"),
        (proto("DT_FLOAT", [2**40], tensor_content=b"1234"), "4 bytes in tensor_content; expected 4398046511104"),
        (proto("DT_FLOAT", [2**40, 0, 2**40], tensor_content=b""), r"shape \[1099511627776, 0, .*2\*\*48"),
        (proto("DT_BOOL", [1], tensor_content=b"\2"), "neither 0 nor 1"),
        (proto("DT_STRING", [1], tensor_content=b"\1a"), "texts in tensor_content"),
        (proto("DT_FLOAT", [-1]), r"shape \[-1\]; expected"),
        (proto("DT_FLOAT", [1] * 33), "33 axes; at most 32"),
        (proto("DT_UINT8", [1], int_val=[256]), "a value beyond 0 to 255, the range of DT_UINT8"),
        (proto("DT_HALF", [1], half_val=[70000]), "a value beyond 0 to 65535, the range of DT_HALF"),
        (proto("DT_HALF", [1], half_val=[-1]), "a value beyond"),
        (proto("DT_COMPLEX64", [2], scomplex_val=[1, 2, 3]), "3 values; complex numbers are pairs"),
        (proto("DT_VARIANT", [1]), "dtype DT_VARIANT; expected one of DT_FLOAT"),
        (proto("DT_INVALID", [1]), "dtype DT_INVALID; expected"),
        (TF_SERVING["tensorflow.TensorProto"](dtype=999), "dtype 999; expected"),
        (TF_SERVING["tensorflow.TensorProto"](dtype=1, tensor_shape={"unknown_rank": True}), "shape unknown"),
    ],
)  # fmt: skip
def test_values_that_are_not_what_type_and_shape_say_are_a_problem(tensor, said):
    with pytest.raises(Problem, match=said) as caught:
        array_of_proto(tensor, "x")
    assert caught.value.code is Code.INVALID_ARGUMENT


@pytest.mark.parametrize("kind", ["DT_FLOAT", "DT_STRING"])
def test_a_shape_is_not_believed_before_memory_is_taken(kind):
    for shape in ([2**48], [2**24, 2**24]):
        with pytest.raises(Problem, match="elements; at most") as caught:
            array_of_proto(proto(kind, shape), "x")
        assert caught.value.code is Code.RESOURCE_EXHAUSTED
    with pytest.raises(Problem, match="11 elements; at most 10 are made of 0 values"):
        array_of_proto(proto(kind, [11]), "x", most_elements=10)


def test_a_type_that_tensorflow_does_not_have_is_a_problem():
    with pytest.raises(Problem, match="element type datetime64"):
        type_number(np.dtype("M8[s]"))
