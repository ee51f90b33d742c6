"""Tests that contiguous rows are batched without a copy, and others with a copy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelflow.device import CPU, empty, memory_of
from modelflow.device.host import join_rows

BLOCK = np.arange(24, dtype=np.float32).reshape(6, 2, 2)


def gathered(items, size, **more):
    return memory_of("cpu").gather(items, size, np.float32, CPU, **more)


@pytest.mark.parametrize("shape", [(8, 224, 224, 3), (8, 2)], ids=["of the pool", "small"])
def test_neighbouring_rows_of_an_array_are_a_batch_without_a_copy(shape):
    block = empty(shape, np.float32)
    block[:] = np.arange(8, dtype=np.float32).reshape(-1, *[1] * (len(shape) - 1))
    batch = gathered(list(block)[2:7], 5)
    assert np.shares_memory(batch, block)
    assert batch.flags.c_contiguous
    np.testing.assert_array_equal(batch, block[2:7])


def test_a_batch_that_lies_in_its_rows_is_read_only():
    batch = gathered(list(BLOCK), 6)
    with pytest.raises(ValueError, match="read-only"):
        batch[0] = 1
    assert BLOCK.flags.writeable


def test_the_memory_stays_as_long_as_the_batch():
    rows = list(empty((2, 200, 200), np.float32))
    for row in rows:
        row[:] = 3
    batch = gathered(rows, 2)
    del rows, row
    assert not any(np.shares_memory(batch, empty((2, 200, 200), np.float32)) for _ in range(3))
    assert (batch == 3).all()


@given(st.lists(st.integers(0, 5), min_size=2, max_size=6))
def test_a_batch_holds_its_rows_in_their_order(places):
    rows = [BLOCK[place] for place in places]
    np.testing.assert_array_equal(gathered(rows, len(rows)), BLOCK[places])
    is_run = places == list(range(places[0], places[0] + len(places)))
    assert (join_rows(rows) is not None) == is_run


@pytest.mark.parametrize(
    "rows",
    [
        [BLOCK[0].copy(), BLOCK[1].copy()],
        [BLOCK[0], BLOCK[1].copy()],
        [BLOCK[0], BLOCK[1].T],
        [BLOCK[0, :1], BLOCK[0, 1:].reshape(2, 1)],
        list(BLOCK[:, :, 0]),
        list(BLOCK.transpose(1, 2, 0)),
        [BLOCK[0].view(np.int32), BLOCK[1].view(np.int32)],
        [BLOCK[0], BLOCK[1].view(np.int32)],
        list(np.empty((3, 0), np.float32)),
        list(np.array([[b"a"], [b"b"]], object)),
    ],
    ids=[
        *("of their own", "one of its own", "turned", "of two shapes", "with gaps", "no array"),
        *("of another type", "of two types", "of nothing", "text"),
    ],
)
def test_rows_that_are_no_array_are_not_joined(rows):
    if rows[0].dtype == object:
        assert memory_of("cpu").gather(rows, 2, object, CPU).tolist() == [[b"a"], [b"b"]]
    else:
        assert join_rows(rows) is None


def test_rows_that_begin_within_a_number_are_not_joined():
    whole = np.zeros(8, np.float32)
    shifted = whole.view(np.uint8)[2:18].view(np.float32)
    assert join_rows([shifted[:2], shifted[2:]]) is None


def test_what_is_filled_up_or_of_another_type_is_copied():
    rows = list(BLOCK)
    padded = gathered(rows, 7)
    np.testing.assert_array_equal(padded[:6], BLOCK)
    assert not padded[6].any()
    converted = memory_of("cpu").gather(rows, 6, np.float64, CPU)
    np.testing.assert_array_equal(converted, BLOCK)
    wide = gathered(rows, 6, shape=(2, 3))
    np.testing.assert_array_equal(wide[:, :, :2], BLOCK)
