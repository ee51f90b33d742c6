"""Tests of one input of a graph."""

from modelflow.buffer import Buffer
from modelflow.runtime.entry.request_group import EntryPort
from modelflow.runtime.session.segment import Segment, Stream
from tests.runtime.fake_session import FakeSession


class Taker:
    def __init__(self, is_due):
        self.is_due, self.got = is_due, []

    append_whole = None

    def append(self, port, segments, _handoff=None, /):
        for segment in segments:
            for buffer in segment.columns[0]:
                assert buffer.meta == {}
                buffer.set("mark", port)
        self.got.append(port)
        return self.is_due


def test_every_receiver_gets_buffers_of_its_own_and_those_to_be_told_are_returned():
    first, second = Taker(False), Taker(True)
    port = EntryPort("in", ((first, 0), (second, 3)), False, lambda: None)
    segment = Segment(Stream(FakeSession()), range(1), [[Buffer(1)]], True, False)
    told: list[object] = [*port.append([segment])]
    assert told == [second]
    assert (first.got, second.got) == ([0], [3])
