"""Tests of the order of a loop."""

import threading

import pytest

from modelflow.buffer import Buffer
from modelflow.errors import Cancelled, DeadlineExceeded, FlowUnitError
from modelflow.runtime.kinds.loop.looping import ENTRY, RETURN, LoopOrder
from modelflow.runtime.orders.order import InboxPolicy
from modelflow.runtime.session.segment import Segment
from modelflow.unit.kind import Loop
from tests.runtime.fake_clock import FakeClock
from tests.runtime.graphs import Running, graph_of, per_item, results_of, spec_of, told, unit_of
from tests.runtime.queues.test_inbox import segment, stream

inline = pytest.mark.parametrize("options", [{}, {"is_inline": True}], ids=["threads", "inline"])


def until(bound):
    def process(ctx):
        (row,) = ctx.input()
        if row.data == "bad":
            raise ValueError("is bad")
        ctx.outputs["exit" if row.data >= bound else "back"].append(row)

    return unit_of(process, outputs=("back", "exit"), kind=Loop(), name="loop")


def round_about(body, loop=None, **settings):
    return graph_of(
        {"input": "input", "loop": (loop or until(10), settings), "body": body, "output": "output"},
        ["input -> loop", "loop:back -> body", "body -> loop", "loop:exit -> output"],
    )


def test_what_never_leaves_can_be_cancelled_and_others_go_on():
    rounds = threading.Semaphore(0)

    def again(value):
        rounds.release()
        return value

    with Running(round_about(per_item(again), until(10))) as flow:
        stuck, other = flow.session(), flow.session()
        stuck.send("input", 0)
        for _ in range(100):
            assert rounds.acquire(timeout=30)
        assert told(other.exchange({"input": [50]}, 30)["output"]) == [50]
        stuck.cancel()
        with pytest.raises(Cancelled):
            stuck.recv(timeout=30)
        assert flow.infer(70).data == 70


def test_what_waits_at_the_entry_goes_in_when_what_is_inside_is_cancelled():
    rounds = threading.Semaphore(0)

    def again(value):
        rounds.release()
        return value

    with Running(round_about(per_item(again), queue_size=1, batch_size=1, threads=2)) as flow:
        stuck, other = flow.session(), flow.session()
        stuck.send("input", 0)
        assert rounds.acquire(timeout=30)
        other.send("input", 50)
        other.close_input()
        stuck.cancel()
        assert other.recv(timeout=30).data == 50


def test_a_deadline_ends_what_never_leaves():
    with Running(round_about(per_item(lambda x: x), until(10))) as flow:
        stream = flow.session()
        stream.send("input", 0, deadline=0.05)
        stream.close_input()
        with pytest.raises(DeadlineExceeded):
            stream.recv(timeout=30)


def test_a_buffer_that_goes_round_for_ever_is_named_in_a_warning(monkeypatch, caplog):
    monkeypatch.setattr("modelflow.runtime.kinds.loop.looping.WARN_ROUNDS", 5)
    found = results_of(round_about(per_item(lambda x: x + 1), until(7)), 0, 6)
    assert found == [7, 7]
    (record,) = [r for r in caplog.records if "gone round" in r.message]
    assert "node 'loop': a buffer of session '0' has gone round 5 times" in record.message


def looping(bound=2, batch_size=1):
    return LoopOrder(InboxPolicy((bound, bound), batch_size), 1, "again", "loop")


def test_a_loop_lets_in_as_many_rows_as_its_queue_holds():
    here, s = looping(bound=2), stream()
    here.add(ENTRY, [segment(s, 0, 5)])
    batches = [here.cut(1), here.cut(1)]
    assert not here.waiting
    assert here.cut(1) is None
    leaving, going = here.settle(batches[0], [[Buffer("left")], [None]], False, 0)
    assert [b.data for part in leaving for b in part.columns[0]] == ["left"]
    assert going == []
    assert here.waiting
    assert here.cut(8).size == 1


def test_what_comes_back_comes_before_what_enters_and_always_has_room():
    here, s = looping(bound=2), stream()
    here.add(ENTRY, [segment(s, 0, 4)])
    _, going = here.settle(here.cut(1), [[None], [Buffer("again")]], False, 0)
    assert here.has_room(RETURN, None)
    assert not here.has_room(ENTRY, None)
    here.add(RETURN, going)
    assert [b.data for b in here.cut(2).columns[0]] == ["again", 1]


def test_what_goes_round_of_a_dropped_session_is_dropped_where_it_is_found():
    here, s = looping(bound=2), stream()
    here.add(ENTRY, [segment(s, 0, 2)])
    batch = here.cut(1)
    _, going = here.settle(batch, [[None], [Buffer("again")]], False, 0)
    here.add(RETURN, going)
    here.drop(s.session)
    assert here.count_held() == 0
    here.add(RETURN, going)
    assert here.cut(2) is None
    assert here.settle(batch, [[Buffer("left")], [None]], False, 0) == ([], [])
    assert here.count_held() == 0


def test_a_stop_ends_what_goes_round_for_ever_and_says_so():
    clock, moved = FakeClock(), threading.Event()

    def body(x):
        moved.set()
        return x

    flow = Running(round_about(per_item(body), until(1)), clock=clock, stop_timeout=2)
    flow.scheduler.start()
    s = flow.session()
    s.send("input", 0)
    stopping = threading.Thread(target=flow.scheduler.stop, name="modelflow/test/stop")
    stopping.start()
    clock.until_sleeping(2)  # the watchdog, and the stop
    for _ in range(2):  # a whole call since then: data that does not move at all is dropped
        moved.clear()
        assert moved.wait(60)
    clock.advance(2)
    stopping.join()
    assert "the flow stops, and the buffer was still going round (after" in str(
        s.recv(errors="return").error
    )
    assert flow.scheduler.count_held() == {}


def values(parts):
    return [b.data for part in parts for b in part.columns[0]]


def sent_round(here, size):
    """Cuts a batch, sends all of its rows into the next round, and adds them to the queue again."""
    batch = here.cut(size)
    again = [Buffer(f"again {b.data}") for b in batch.columns[0]]
    leaving, going = here.settle(batch, [[None] * len(again), again], False, 0)
    assert leaving == []
    here.add(RETURN, going)
    return going


def leaves(here, batch):
    """Lets all rows of a batch leave by the exit; returns the rows that leave and that go round."""
    column = batch.columns[0]
    return here.settle(batch, [list(column), [None] * len(column)], False, 0)


def test_a_batch_is_filled_with_what_comes_back_and_what_enters_up_to_its_size():
    here, s = looping(bound=8), stream()
    here.add(ENTRY, [segment(s, 0, 8)])
    sent_round(here, 3)
    batch = here.cut(5)
    assert batch.size == 5
    assert [buffer.data for buffer in batch.columns[0]][3:] == [3, 4]
    leaving, _ = leaves(here, batch)
    assert [list(part.positions) for part in leaving] == [[0], [1], [2], [3], [4]]
    assert here.cut(8).size == 3
    assert here.cut(8) is None


def test_an_error_that_leaves_or_goes_round_is_known_as_one():
    here, s = looping(bound=4), stream()
    here.add(ENTRY, [Segment(s, range(1), [[Buffer(1)]], False, True), segment(s, 1, 1)])
    batch = here.cut(2)
    assert batch.has_errors
    bad = Buffer.from_error(FlowUnitError("no good", node="n"))
    leaving, going = here.settle(batch, [[bad, None], [None, Buffer(2)]], True, 0)
    assert [part.has_errors for part in (*leaving, *going)] == [True, True]
    here.add(RETURN, going)
    assert here.cut(1).has_errors


def test_the_order_of_a_loop_knows_its_node_and_unit():
    graph = graph_of(
        {"input": "input", "again": until(10), "body": spec_of(), "output": "output"},
        ["input -> again", "again:back -> body", "body -> again", "again:exit -> output"],
    )
    order = Running(graph).scheduler._wiring.stages["again"].order
    assert (order._node, order._unit) == ("again", "loop")


def test_what_is_cut_off_by_a_stop_names_node_unit_and_session():
    here, s = looping(bound=4), stream("mine")
    here.add(ENTRY, [segment(s, 0, 1)])
    sent_round(here, 1)
    here.end_cycles()
    ((left,), going) = here.settle(here.cut(1), [[None], [Buffer("again")]], False, 0)
    (bad,) = left.columns[0]
    assert (bad.error.node, bad.error.unit, bad.error.session) == ("again", "loop", "mine")
    assert "(after 1 rounds)" in str(bad.error)
    assert isinstance(bad.error.__cause__, Cancelled)
    assert (left.has_errors, going) == (True, [])


def test_rows_of_a_dropped_session_in_a_batch_do_not_keep_the_others():
    here, gone, other = looping(bound=4), stream("gone"), stream("other")
    here.add(ENTRY, [segment(gone, 0, 1), segment(other, 0, 1)])
    batch = here.cut(2)
    here.drop(gone.session)
    leaving, _ = leaves(here, batch)
    assert [part.stream for part in leaving] == [other]


def test_a_batch_is_not_filled_beyond_its_size_with_what_comes_back():
    here, s = looping(bound=4), stream()
    here.add(ENTRY, [segment(s, 0, 4)])
    sent_round(here, 4)
    assert [here.cut(3).size, here.cut(3).size] == [3, 1]


def test_what_comes_back_of_a_dropped_session_does_not_end_the_batch():
    here, gone, other = looping(bound=4), stream("gone"), stream("other")
    here.add(ENTRY, [segment(gone, 0, 1), segment(other, 0, 1)])
    batch = here.cut(2)
    _, going = here.settle(batch, [[None, None], batch.columns[0]], False, 0)
    here.drop(gone.session)
    here.add(RETURN, going)
    assert here.cut(2).size == 1


def test_nothing_enters_a_full_loop_also_no_end():
    here, one, other = looping(bound=1), stream("one"), stream("other")
    here.add(ENTRY, [segment(one, 0, 1)])
    sent_round(here, 1)
    here.add(ENTRY, [segment(other, 0, 0, is_last=True)])
    assert [span.stream for span in here.cut(8).spans] == [one]


def test_a_session_that_is_not_inside_is_dropped_without_effect():
    here, s = looping(bound=4), stream()
    here.add(ENTRY, [segment(s, 0, 1)])
    sent_round(here, 1)
    here.drop(stream().session)
    assert here.cut(1).size == 1
