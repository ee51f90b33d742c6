"""Tests of a replica's replies in the difficult cases."""

import threading

import numpy as np

from modelflow.ipc import channel as channels
from modelflow.ipc.memory_channel import MemoryChannel, open_channel
from modelflow.remote.message import Answers, Rows
from modelflow.remote.replica import Inquiry, NotSendableError
from modelflow.remote.replica_process import answer_all
from modelflow.runtime.stats import NodeStats

LONG = 60.0


class Part:
    """A part that returns an array for each row."""

    def answer(self, rows, sign):
        return Answers({"output": ([np.arange(3) for _ in rows.remaining], [None] * len(rows))})


class Telling(Part):
    """A part with statistics."""

    def figures(self):
        return {"n": NodeStats("n", "unit", buffers=7)}


def test_of_several_who_use_a_replica_one_is_told_its_figures():
    parts, asking, sides = {"part": Telling()}, [], []
    for _ in range(2):
        here, ends = open_channel()
        there = MemoryChannel(ends)
        thread = threading.Thread(target=answer_all, args=(there, parts, asking))
        thread.start()
        sides.append((here, there, thread))

    def told(place):
        here = sides[place][0]
        here.send(Inquiry())
        return here.receive(LONG)[1].parts

    def leave(place):
        here, there, thread = sides[place]
        here.end()
        thread.join()
        here.close()
        there.close()

    assert told(0)["part"]["n"].buffers == 7
    assert told(1) == {}
    assert told(0)["part"]["n"].buffers == 7
    leave(0)
    assert told(1)["part"]["n"].buffers == 7
    leave(1)


def test_rows_that_can_be_sent_each_and_not_all_at_once_are_asked_for_each_alone(monkeypatch):
    monkeypatch.setattr(channels, "_MOST_ARRAYS", 2)
    here, ends = open_channel()
    there = MemoryChannel(ends)
    thread = threading.Thread(target=answer_all, args=(there, {"part": Part()}))
    thread.start()
    rows = Rows("part", {"input": ([1, 2, 3], [None] * 3)}, [None] * 3)
    here.send(rows)
    is_good, error = here.receive(10)
    assert not is_good
    assert isinstance(error, NotSendableError)
    assert "at most 2" in str(error)
    here.send(rows.row(0))
    is_good, answers = here.receive(10)
    assert is_good
    np.testing.assert_array_equal(answers.columns["output"][0][0], np.arange(3))
    here.end()
    thread.join()
    here.close()
    there.close()
