"""Tests of the memory of queued rows, and of the length of segments."""

import math
from collections import deque
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelflow.buffer import Buffer
from modelflow.runtime.orders.order import InboxPolicy, bytes_of, first_rows
from modelflow.runtime.session.segment import Segment
from tests.runtime.queues.test_inbox import stream


@pytest.mark.parametrize(
    ("data", "size"),
    [
        (np.zeros((2, 3), np.float32), 24),
        (b"abc", 3),
        (bytearray(4), 4),
        (memoryview(b"12345"), 5),
        ("text", 4),
        (None, 0),
        (7, 0),
    ],
)
def test_bytes_of_counts_arrays_bytes_and_texts(data, size):
    rows = [[Buffer(data), Buffer(data)], [Buffer(b"x"), Buffer(None)]]
    assert bytes_of(Segment(stream(), range(2), rows, False, False)) == 2 * size + 1


def test_bytes_of_counts_what_a_gathered_stream_holds():
    cell = [Buffer(b"12"), Buffer(b"3")]
    rows: Any = [[cell]]
    assert bytes_of(Segment(stream(), range(1), rows, False, False)) == 3


def test_a_policy_bounds_rows_and_nothing_else_unless_told():
    policy = InboxPolicy((3,))
    assert (policy.batch_size, policy.byte_bound, policy.unmatched_bounds) == (1, None, ())


class Counted(Segment):
    """Counts the rows that a cut copies."""

    __slots__ = ()

    copied = 0

    def split(self, count):
        Counted.copied += len(self.positions)
        parts = super().split(count)
        for part in parts:
            part.__class__ = Counted
        return parts


@given(st.integers(1, 3000), st.integers(1, 40))
def test_a_long_segment_is_handed_out_in_order_and_not_copied_for_every_batch(rows, size):
    Counted.copied = 0
    column = [Buffer(number) for number in range(rows)]
    idle_workers: deque[Segment] = deque()
    idle_workers.append(Counted(stream("s"), range(rows), [column], True, False))
    found: list[int] = []
    while idle_workers:
        piece = idle_workers.popleft()
        if len(piece.positions) > size:
            piece = first_rows(piece, size, idle_workers)
            assert len(piece.positions) == size
        assert piece.is_last == (not idle_workers)
        assert [buffer.data for buffer in piece.columns[0]] == list(piece.positions)
        found += piece.positions
    assert found == list(range(rows))
    assert Counted.copied <= rows * (math.log2(max(rows / size, 1)) + 2)
