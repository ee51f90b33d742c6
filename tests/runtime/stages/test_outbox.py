import pytest

from modelflow.buffer import Buffer
from modelflow.plan import Origin
from modelflow.runtime.clock import SYSTEM_CLOCK
from modelflow.runtime.entry.request_group import EntryPort
from modelflow.runtime.entry.submitter import Submitter
from modelflow.runtime.session.segment import Batch, Span, Stream
from modelflow.runtime.session.session import Session
from modelflow.runtime.stages.outbox import Outbox
from tests.runtime.fake_session import FakeSession


class Gate:
    """A stand-in for an inbox with only the members that an outbox uses."""

    def __init__(self):
        self.paused, self.is_due = [], False

    def pause(self, session):
        self.paused.append(session)

    def resume(self, session):
        self.paused.remove(session)
        self.is_due = True

    def call_due(self):
        self.is_due = False


class Receiver:
    def __init__(self, has_waiting=False):
        self.got, self.ports, self.calls = [], [], 0
        self.has_waiting = has_waiting

    @property
    def append_whole(self):
        return None

    def append(self, port, segments, _handoff=None, /):
        assert segments, "there is nothing to append"
        self.got += segments
        self.ports.append(port)
        return self.has_waiting

    def call_due(self):
        self.calls += 1

    def wait_for_room(self, port):
        return None

    def find_backpressure(self, port):
        return None

    def values(self, stream):
        return [b.data for s in self.got if s.stream is stream for b in s.columns[0]]


def stream():
    return Stream(FakeSession(name="s", is_cancelled=False))


def emit(box, *parts):
    """Emits a batch of (stream, ticket, first, count, is_last) with the position as data."""
    spans, column = [], []
    for of, ticket, first, count, is_last in parts:
        positions = range(first, first + count)
        spans.append(Span(of, positions, is_last, ticket))
        column += [Buffer(i) for i in positions]
    box.emit(Batch(spans, [column], False), [column], False)


def test_tickets_restore_the_order_of_a_stream():
    to, s = Receiver(), stream()
    box = Outbox([((to, 0),)], Gate(), 100)
    emit(box, (s, 2, 4, 2, True))
    emit(box, (s, 1, 2, 2, False))
    assert to.got == []
    emit(box, (s, 0, 0, 2, False))
    assert to.values(s) == [0, 1, 2, 3, 4, 5]
    assert to.got[-1].is_last


def test_a_slow_stream_does_not_hold_back_another():
    to, slow, quick = Receiver(), stream(), stream()
    box = Outbox([((to, 0),)], Gate(), 100)
    emit(box, (slow, 1, 1, 1, False), (quick, 0, 0, 1, False))
    assert to.values(quick) == [0]
    assert to.values(slow) == []


def test_state_of_a_stream_is_gone_after_its_end():
    to, s = Receiver(), stream()
    box = Outbox([((to, 0),)], Gate(), 100)
    emit(box, (s, 0, 0, 1, False))
    emit(box, (s, 1, 1, 1, True))
    assert not box._sessions


def test_fan_out_gives_every_receiver_a_list_of_its_own():
    first, second, s = Receiver(), Receiver(), stream()
    box = Outbox([((first, 0), (second, 0))], None, 100)
    emit(box, (s, None, 0, 2, True))
    assert first.values(s) == second.values(s) == [0, 1]
    assert first.got[0].columns[0] is not second.got[0].columns[0]


@pytest.mark.parametrize("gate", [None, Gate()])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_every_receiver_is_told_its_port_and_called_where_somebody_waits_for_it(gate, count):
    receivers = [Receiver(has_waiting=number != 1) for number in range(count)]
    box = Outbox([tuple((to, 5 + number) for number, to in enumerate(receivers))], gate, 100)
    emit(box, (stream(), 0, 0, 2, True))
    assert [to.ports for to in receivers] == [[5 + number] for number in range(count)]
    assert [to.calls for to in receivers] == [number != 1 for number in range(count)]


def test_a_cancelled_stream_is_forgotten():
    to, s = Receiver(), stream()
    box = Outbox([((to, 0),)], Gate(), 100)
    emit(box, (s, 1, 1, 1, False))
    s.session.is_cancelled = True
    emit(box, (s, 0, 0, 1, False))
    assert to.got == []
    assert not box._sessions


class Whole(Receiver):
    """A receiver that accepts whole batches."""

    def __init__(self):
        super().__init__()
        self.batches = []

    @property
    def append_whole(self):
        return self._take

    def _take(self, batch, _handoff=None):
        self.batches.append([(span.stream, list(span.positions)) for span in batch.spans])
        assert [buffer.data for buffer in batch.columns[0]] == [
            position for span in batch.spans for position in span.positions
        ]


def test_a_batch_whose_spans_all_have_their_turn_goes_on_as_it_is():
    to, a, b = Whole(), stream(), stream()
    box = Outbox([((to, 0),)], Gate(), 100)
    emit(box, (a, 0, 0, 1, False), (b, 0, 0, 1, False))
    emit(box, (a, 1, 1, 1, True), (b, 1, 1, 1, False))
    assert to.batches == [[(a, [0]), (b, [0])], [(a, [1]), (b, [1])]]
    assert (to.got, list(box._sessions)) == ([], [b.session])


def test_a_batch_of_which_a_part_is_ahead_of_its_turn_waits_with_that_part_alone():
    to, a, b = Whole(), stream(), stream()
    box = Outbox([((to, 0),)], Gate(), 100)
    emit(box, (a, 1, 1, 1, False), (b, 0, 0, 1, False))
    assert (to.values(a), to.values(b)) == ([], [0])
    emit(box, (a, 0, 0, 1, False))
    assert to.values(a) == [0, 1]
    assert to.batches == []
    emit(box, (a, 2, 2, 1, True))
    assert to.batches == [[(a, [2])]]


def test_what_nothing_can_overtake_does_not_take_with_it_what_waits_for_its_turn():
    to, free, ordered = Whole(), stream(), stream()
    box = Outbox([((to, 0),)], Gate(), 100)
    emit(box, (free, None, 0, 1, True), (ordered, 1, 1, 1, True))
    assert (to.values(free), to.values(ordered)) == ([0], [])
    emit(box, (ordered, 0, 0, 1, False))
    assert to.values(ordered) == [0, 1]


def test_two_spans_of_one_session_in_a_batch_keep_their_turns():
    to, a, b = Whole(), stream(), stream()
    box = Outbox([((to, 0),)], Gate(), 100)
    emit(box, (a, 0, 0, 1, False), (b, 0, 0, 1, True), (a, 1, 1, 1, True))
    assert (to.values(a), to.values(b)) == ([0, 1], [0])
    assert not box._sessions


def test_a_batch_with_a_cancelled_session_goes_on_without_it():
    to, gone, other = Whole(), stream(), stream()
    box = Outbox([((to, 0),)], Gate(), 100)
    gone.session.is_cancelled = True
    emit(box, (gone, 0, 0, 1, False), (other, 0, 0, 1, True))
    assert (to.batches, to.values(gone), to.values(other)) == ([], [], [0])


class Marking(Receiver):
    """Writes to each received buffer at once, as a worker may."""

    append_whole = None

    def append(self, port, segments, _handoff=None, /):
        for segment in segments:
            for buffer in segment.columns[0]:
                assert buffer.meta == {}
                buffer.set("mark", True)
        return super().append(port, segments)


def test_no_receiver_sees_what_another_writes_to_its_buffers_at_once():
    first, second = Marking(), Marking()
    box = Outbox([((first, 0), (second, 0))], None, 0)
    emit(box, (stream(), None, 0, 2, False), (stream(), None, 0, 2, False))
    assert len(second.got) == 2


def test_no_consumer_of_an_input_sees_what_another_writes_at_once():
    first, second = Marking(), Marking()
    port = EntryPort("input", ((first, 0), (second, 0)), False, lambda: None)
    submitter = Submitter({"input": port}, None, 10, SYSTEM_CLOCK, Session.cancel)
    ends = Origin(("output",), ("output",), ("output",), frozenset(), is_counted=True)
    session = Session("s", "", ends, in_flight=None, on_finished=lambda _: None)
    submitter.send(session, "input", [Buffer(1)])
    assert len(second.got) == 1


def test_a_session_is_paused_while_more_than_the_limit_of_its_rows_wait():
    gate, s = Gate(), stream()
    box = Outbox([((Receiver(), 0),)], gate, 2)
    for ticket, paused in ((1, 0), (3, 0), (4, 1), (5, 1)):
        emit(box, (s, ticket, ticket, 1, False))
        assert gate.paused == [s.session] * paused
    emit(box, (s, 0, 0, 1, False))  # and with it the rows with ticket 1: three wait
    assert gate.paused == [s.session]
    emit(box, (s, 2, 2, 1, False))
    assert gate.paused == []


def test_a_session_goes_on_when_as_many_rows_wait_as_may_and_may_be_paused_again():
    gate, s = Gate(), stream()
    box = Outbox([((Receiver(), 0),)], gate, 2)
    for ticket in (1, 3, 4):
        emit(box, (s, ticket, ticket, 1, False))
    assert gate.paused == [s.session]
    emit(box, (s, 0, 0, 1, False))
    assert gate.paused == []
    emit(box, (s, 5, 5, 1, False))
    assert gate.paused == [s.session]


def test_a_paused_session_that_ends_is_resumed():
    gate, s = Gate(), stream()
    box = Outbox([((Receiver(), 0),)], gate, 0)
    emit(box, (s, 1, 1, 1, True))
    assert gate.paused == [s.session]
    emit(box, (s, 0, 0, 1, False))
    assert (gate.paused, gate.is_due) == ([], False)


def test_of_what_has_become_nothing_nothing_is_appended():
    to = Receiver()
    Outbox([((to, 0),)], None, 0).send([[]])
    assert to.got == []
