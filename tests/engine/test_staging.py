"""Tests of the items of a model (bytes, flat arrays, lists), and of messages about others."""

import numpy as np
import pytest

from modelflow.engine.staging import InputPort
from modelflow.errors import ItemRefusedError
from modelflow.wire.tensor import TensorSpec

IMAGE = np.arange(24, dtype=np.float32).reshape(2, 4, 3)


def port(dtype="float32", shape=(None, 2, 4, 3), text=bytes, *, cast=False):
    return InputPort("net", TensorSpec("x", np.dtype(dtype), shape), cast, text_type=text)


@pytest.mark.parametrize(
    ("given", "meta"),
    [
        (IMAGE, None),
        (IMAGE.tobytes(), None),
        (IMAGE.tobytes(), [2, 4, 3]),
        (memoryview(IMAGE.tobytes()), None),
        (np.frombuffer(IMAGE.tobytes(), np.uint8), None),
        (IMAGE.reshape(-1), None),
        (IMAGE.astype(">f4"), None),
        (IMAGE.tolist(), None),
    ],
    ids=[
        "array",
        "bytes",
        "bytes with shape",
        "view",
        "row of bytes",
        "flat",
        "big-endian",
        "list",
    ],
)
def test_what_fills_an_item_exactly_is_that_item(given, meta):
    arrived = port().arrive(given, meta)
    np.testing.assert_array_equal(arrived, IMAGE)
    assert arrived.dtype == np.float32


def test_bytes_are_seen_without_a_copy():
    data = IMAGE.tobytes()
    assert np.shares_memory(port().arrive(data), np.frombuffer(data, np.uint8))


def test_free_axes_take_the_lengths_of_the_meta():
    free = port(shape=(None, None, None, 3))
    assert free.arrive(IMAGE.tobytes(), [2, 4, 3]).shape == (2, 4, 3)
    with pytest.raises(ItemRefusedError, match="96 bytes"):
        free.arrive(IMAGE.tobytes())


def test_a_batch_of_one_is_its_row_where_the_batch_is_fixed_to_one():
    assert port(shape=(1, 2, 4, 3)).arrive(IMAGE[np.newaxis]).shape == IMAGE.shape


@pytest.mark.parametrize(
    ("dtype", "given", "cast", "said"),
    [
        ("float32", IMAGE[np.newaxis], False, r"\(1, 2, 4, 3\).*leave the batch axis out"),
        ("float32", IMAGE.transpose(2, 0, 1), False, r"transpose it by \(1, 2, 0\) to \(2, 4, 3\)"),
        ("float32", IMAGE[:1], False, r"got float32 \(1, 4, 3\); expected float32 \(2, 4, 3\)"),
        ("float32", [[[1, 2, "three"]]], False, r"got str 'three' \(value 2\)"),
        ("int8", [[[1, 2, 300]]], False, r"got 300 at \[0, 0, 2\], which int8 cannot hold"),
        ("int8", np.full((2, 4, 3), 300), True, r"got 300 at \[0, 0, 0\], which int8 cannot hold"),
        ("uint8", [[[1, -2]]], False, r"got -2 at \[0, 0, 1\], which uint8 cannot hold"),
        ("float16", np.full((2, 4, 3), 1e6), True, r"got 1000000.0 at .* float16 cannot hold"),
    ],
)
def test_an_item_that_does_not_fit_says_why_and_what_to_do(dtype, given, cast, said):
    with pytest.raises(ItemRefusedError, match=said):
        port(dtype, cast=cast).arrive(given)


@pytest.mark.parametrize("dtype", ["int64", "float32", "bool", "uint8"])
def test_an_empty_list_is_of_the_ports_type(dtype):
    arrived = port(dtype, (None, None, None)).arrive([[]])
    assert (arrived.dtype, arrived.shape) == (np.dtype(dtype), (1, 0))


@pytest.mark.parametrize(
    "given", ["cat", b"cat", bytearray(b"cat"), np.array("cat"), np.array(b"cat")]
)
@pytest.mark.parametrize(("kind", "expected"), [(str, "cat"), (bytes, b"cat")])
def test_texts_are_of_the_type_that_the_engine_takes(given, kind, expected):
    arrived = port(object, (None,), kind).arrive(given)
    assert arrived.item() == expected
    assert type(arrived.item()) is kind


def test_bytes_that_are_no_text_are_refused_where_text_is_wanted():
    with pytest.raises(ItemRefusedError, match=r"2 bytes that are no UTF-8 \(byte 0xff at 1\)"):
        port(object, (None,), str).arrive(b"a\xff")


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint64", "int8"])
def test_lists_of_whole_numbers_are_of_the_ports_type(dtype):
    arrived = port(dtype, (None, 3)).arrive([0, 100, 127])
    assert (arrived.dtype, arrived.tolist()) == (np.dtype(dtype), [0, 100, 127])


def test_what_fills_an_item_is_that_item_also_where_the_graph_takes_other_shapes():
    free = InputPort("m", TensorSpec("x", np.dtype("f4"), (None, 2, 2), None, False), False)
    assert free.arrive(np.arange(4, dtype=np.float32)).shape == (2, 2)
    assert free.arrive(np.arange(3, dtype=np.float32)).shape == (3,)


def test_numbers_are_no_texts_whatever_came_before():
    texts = port("object", (None, 2))
    assert texts.arrive(np.array(["a", "b"], object)).tolist() == [b"a", b"b"]
    with pytest.raises(ItemRefusedError, match="of text"):
        texts.arrive(np.array(["a", 3], object))
