"""Tests that every kind of value, small and large, crosses processes."""

import gc
import math
import os
from collections import namedtuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelflow.ipc.frame import HEAD, FrameReader, FrameWriter
from modelflow.ipc.shared_memory import SharedMemoryReader, SharedMemoryWriter, new_memory
from tests.example_counts import of_a_hundred

Box = namedtuple("Box", "x label")


class Pair:
    """Both sides in one process."""

    def __init__(self):
        memory = new_memory(64 << 20)
        self.memory_writer = SharedMemoryWriter(memory)
        self.memory_reader = SharedMemoryReader(memory, self.memory_writer.free)
        self.packer = FrameWriter(self.memory_writer)
        os.close(memory)

    def unpacked(self, before=b""):
        parcel = before + b"".join(self.packer.close())
        length, size = HEAD.unpack_from(parcel, len(before))
        assert len(parcel) == len(before) + HEAD.size + length + size
        return FrameReader(parcel, len(before), self.memory_reader)

    def through(self, value):
        self.packer.add([self.packer.value(value)])
        unpacker = self.unpacked()
        return unpacker.value(unpacker.messages[0][0])


@pytest.fixture
def pair():
    return Pair()


ARRAYS = (
    np.float32(1.5).reshape(()),
    np.arange(6, dtype=np.int64).reshape(2, 3),
    np.arange(12.0).reshape(3, 4).T,
    np.arange(10, dtype=np.uint8)[::2],
    np.empty((0, 4), np.float32),
    np.array([True, False]),
    np.array([1.5, math.nan, math.inf], np.float16),
    np.array([1, 2], ">i4"),
    np.array(["a", "bc"]),
    np.arange(100_000, dtype=np.float32).reshape(100, 1000),
    np.arange(100_000, dtype=np.float64)[::3],
)


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype}{array.shape}")
def test_an_array_comes_out_as_it_was_and_nobody_can_write_to_it(pair, array):
    found = pair.through(array)
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(found, array)
    assert not found.flags.writeable
    assert found.flags.aligned


VALUES = (
    None,
    True,
    7,
    1 << 80,
    -1.5,
    "text",
    "\ud800",
    b"\xff\x00",
    b"x" * 100_000,
    [1, "two", b"three", [None]],
    (1, (2, 3)),
    {"a": {"b": [1, b"x"]}},
    {"$a": 1, "$t": {"$b": 2}},
    {},
    [],
    [{"score": np.float32(0.1), "box": np.arange(4)}],
)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_comes_out_as_it_was(pair, value):
    found = pair.through(value)
    assert type(found) is type(value)
    assert repr(found) == repr(value)


def test_numbers_of_numpy_keep_their_type(pair):
    found = pair.through(np.float32(0.1))
    assert type(found) is np.float32
    assert found == np.float32(0.1)
    assert math.isnan(pair.through(math.nan))


def test_what_has_names_comes_out_as_the_mapping_that_json_makes_of_it(pair):
    assert pair.through([Box(1, "cat")]) == [{"x": 1, "label": "cat"}]


@pytest.mark.parametrize(
    "items", [[b"one", b"", b"\x00three"], [b"x" * 9000, b"y"], [b"one", "two", None]]
)
def test_arrays_of_objects_keep_their_shape_and_what_is_in_them(pair, items):
    array = np.empty(len(items), object)
    array[:] = items
    found = pair.through(array.reshape(1, -1))
    assert found.dtype == object
    assert found.tolist() == [items]


@pytest.mark.parametrize("value", [{1, 2}, object(), [object()], {"a": {1}}])
def test_what_json_has_no_form_for_is_refused(pair, value):
    with pytest.raises(ValueError, match="expected data that JSON can hold"):
        pair.packer.value(value)


def test_data_nested_too_deeply_is_refused(pair):
    value = []
    for _ in range(100):
        value = [value]
    with pytest.raises(ValueError, match="nested deeper than 64"):
        pair.packer.value(value)


def test_bfloat16_is_kept(pair):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    array = np.array([1.5, -2.0], ml_dtypes.bfloat16)
    found = pair.through(array)
    assert found.dtype == array.dtype
    assert found.tolist() == array.tolist()


def test_a_slot_is_free_again_when_the_last_view_of_its_array_is_gone(pair):
    found = pair.through(np.arange(100_000.0))
    assert pair.memory_writer.taken == 1
    part = memoryview(found[5:].reshape(-1, 5)[3])
    del found
    gc.collect()
    assert pair.memory_writer.taken == 1
    assert part[0] == 20.0
    del part
    gc.collect()
    assert pair.memory_writer.taken == 0


def test_bytes_give_their_slot_back_at_once(pair):
    assert pair.through(b"x" * 100_000) == b"x" * 100_000
    assert pair.memory_writer.taken == 0


def test_what_has_no_room_in_the_shared_memory_goes_another_way(pair):
    large = np.zeros(33 << 20, np.uint8)
    kept = [pair.through(large), pair.through(large), pair.through(np.ones(10_000))]
    assert pair.memory_writer.taken == 2
    assert [one.nbytes for one in kept] == [large.nbytes, large.nbytes, 80_000]


def test_several_messages_are_one_parcel_wherever_it_lies(pair):
    for number in range(5):
        pair.packer.add(["n", number, pair.packer.value(np.full(3, number, np.float64))])
    unpacker = pair.unpacked(before=b"\0" * 24)
    assert [message[1] for message in unpacker.messages] == list(range(5))
    for message in unpacker.messages:
        found = unpacker.value(message[2])
        assert found.tolist() == [message[1]] * 3
        assert found.flags.aligned
    assert pair.packer.close() == []


@settings(max_examples=of_a_hundred(30))
@given(st.lists(st.integers(1, 1 << 22), min_size=1, max_size=30), st.randoms())
def test_slots_never_overlap_and_all_room_comes_back(sizes, random):
    pair = Pair()
    taken = {}
    for size in sizes:
        where = pair.memory_writer.put(np.zeros(size, np.uint8))
        if where is None:
            continue
        assert all(where + size <= at or at + other <= where for at, other in taken.items())
        taken[where] = size
        if random.random() < 0.4:
            gone = random.choice(list(taken))
            del taken[gone]
            pair.memory_writer.free(gone)
    for where in taken:
        pair.memory_writer.free(where)
    assert pair.memory_writer.put(np.zeros(64 << 20, np.uint8)) == 0
