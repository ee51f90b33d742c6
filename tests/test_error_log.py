import logging
import os

import pytest

import modelflow
from modelflow.buffer import Buffer
from modelflow.error_log import ErrorLog, item_of
from modelflow.errors import FlowUnitError


def failed(cause, node="n", **meta):
    error = FlowUnitError.from_exception(cause, node=node, unit="u")
    return Buffer.from_error(error, meta)


class Told:
    """The lines of an `ErrorLog`, at a time that the test sets."""

    def __init__(self):
        self.now = 0.0
        self.texts = []
        self.log = ErrorLog(lambda text, _: self.texts.append(text), lambda: self.now)

    def take(self):
        texts, self.texts = self.texts, []
        return texts


def test_an_error_is_told_with_its_item():
    told = Told()
    told.log.add(failed(ValueError("bad"), path="a.jpg"))
    assert told.take() == ["a.jpg: node 'n' (unit 'u') failed in process: ValueError: bad"]


@pytest.mark.parametrize(
    ("meta", "item"),
    [
        ({}, ""),
        ({"path": "a.jpg"}, "a.jpg"),
        ({"path": "b.jpg", "index": 7}, "b.jpg"),
        ({"path": "/elsewhere/c.jpg"}, "/elsewhere/c.jpg"),
        ({"path": os.path.abspath("a/d.jpg")}, "a/d.jpg"),
        ({"path": "v.mp4", "index": 7, "rate_num": 25}, "v.mp4, frame 7"),
    ],
)
def test_an_item_is_a_path_or_a_frame_of_one(meta, item):
    assert item_of(Buffer(1, meta)) == item


def test_of_a_kind_twenty_are_told_at_once_and_then_one_in_ten_seconds():
    told = Told()
    for number in range(30):
        told.log.add(failed(ValueError(number)))
    assert len(told.take()) == 20
    told.now = 9.9
    told.log.add(failed(ValueError("soon")))
    assert told.take() == []
    told.now = 10.0
    told.log.add(failed(ValueError("late")))
    (text,) = told.take()
    assert text.endswith("ValueError: late (and 11 of this kind before)")


def test_many_of_one_kind_do_not_hide_another():
    told = Told()
    for number in range(30):
        told.log.add(failed(ValueError(number)))
    told.take()
    told.log.add(failed(KeyError("rare")))
    told.log.add(failed(ValueError("elsewhere"), node="m"))
    assert len(told.take()) == 2


def test_at_the_end_it_is_told_how_many_were_not():
    told = Told()
    for number in range(23):
        told.log.add(failed(ValueError(number)))
    told.take()
    told.log.close()
    told.log.close()
    (text,) = told.take()
    assert text == "3 more as: node 'n' (unit 'u') failed in process: ValueError: 0"


def test_kinds_are_counted_the_most_frequent_first():
    told = Told()
    for node, count in (("a", 1), ("b", 3), ("c", 2)):
        for _ in range(count):
            told.log.add(failed(ValueError("x"), node=node))
    assert [(kind.node, kind.count) for kind in told.log.kinds] == [("b", 3), ("c", 2), ("a", 1)]
    assert told.log.count == 6


def test_an_endless_job_does_not_grow_without_bound():
    told = Told()
    for number in range(2000):
        told.log.add(failed(ValueError("x"), node=f"n{number}"))
    assert len(told.log.kinds) == 1001
    assert told.log.count == 2000


@modelflow.flowunit(outputs=())
def refuse(value):
    """Takes even numbers."""
    if value % 2:
        raise ValueError(f"{value} is odd")


GRAPH = "digraph { input [type=input] refuse input -> refuse }"


@pytest.mark.parametrize("threads", [None, 0])
def test_an_error_that_ends_at_a_sink_is_logged_at_once(caplog, threads):
    with modelflow.Flow(GRAPH, units=[refuse], threads=threads) as flow:
        stream = flow.create_stream_io()
        stream.send("input", 3)
        stream.close_input()
        stream.wait()
        (record,) = [one for one in caplog.records if one.levelno == logging.ERROR]
        assert "ValueError: 3 is odd" in record.message
        assert "test_error_log.py:" in record.message


def test_whoever_asks_is_told_instead_and_what_it_raises_harms_nobody(caplog):
    told = []

    def tell(buffer):
        told.append(buffer.get("path"))
        raise KeyError("its own fault")

    with modelflow.Flow(GRAPH, units=[refuse], on_error=tell) as flow:
        stream = flow.create_stream_io()
        for number in range(4):
            stream.send("input", Buffer(number, {"path": f"{number}.txt"}))
        stream.close_input()
        stream.wait()
        assert len(stream.errors) == 2
    assert sorted(told) == ["1.txt", "3.txt"]
    errors = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert len(errors) == 2
    assert {one.message for one in errors} == {"session '0': the callback `on_error` raised"}
