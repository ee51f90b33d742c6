"""How much memory waits in a queue."""

from typing import Any

import numpy as np
import pytest

from modelflow.buffer import Buffer
from modelflow.runtime.orders.order import InboxPolicy, bytes_of
from modelflow.runtime.segment import Segment
from tests.runtime.test_inbox import stream


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
