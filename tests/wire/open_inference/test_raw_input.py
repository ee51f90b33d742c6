import numpy as np
import pytest

from modelflow.wire.open_inference.infer_json import read_raw_input
from modelflow.wire.problem import Problem
from modelflow.wire.tensor import TensorSpec


def spec(dtype, shape):
    return TensorSpec("x", np.dtype(dtype), shape)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((None, 2), (3, 2)),
        ((None, None), (1, 6)),
        ((None, 2, None), (1, 2, 3)),
        ((6,), (6,)),
        (None, (6,)),
    ],
)
def test_a_body_is_the_only_input_and_its_length_the_free_axis(shape, expected):
    body = np.arange(6, dtype=np.float32).tobytes()
    tensor = read_raw_input(body, spec("f4", shape), "FP32").inputs["x"]
    assert tensor.array.shape == expected
    assert tensor.array.tobytes() == body
    assert np.shares_memory(tensor.array, np.frombuffer(body, np.uint8))


def test_a_body_of_bytes_is_one_element():
    for shape in (None, (None,), (None, 1)):
        tensor = read_raw_input(b"\xff\xd8", spec("O", shape), "BYTES").inputs["x"]
        assert tensor.array.ravel().tolist() == [b"\xff\xd8"]


@pytest.mark.parametrize(
    ("size", "dtype", "shape", "datatype", "said"),
    [
        (25, "f4", (None, 2), "FP32", "25 bytes; expected 24"),
        (0, "f4", (3,), "FP32", "0 bytes; expected 12"),
        (24, "f4", (None, None, None), "FP32", "has several free axes"),
        (24, "f4", (None, 0), "FP32", "24 bytes; expected 0"),
        (4, "O", (None, 2), "BYTES", "a raw body is one element"),
    ],
)
def test_a_body_of_another_size_is_a_problem(size, dtype, shape, datatype, said):
    with pytest.raises(Problem, match=f"^raw input 'x'.*{said}"):
        read_raw_input(bytes(size), spec(dtype, shape), datatype)
