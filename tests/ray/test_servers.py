"""Tests of a cluster's servers, with stand-ins."""

import threading

import pytest

from modelflow.remote.ray.cluster import ClusterError
from modelflow.remote.ray.servers import Served, Servers

LONG = 60


class Told(Served):
    """A server that the test controls."""

    def __init__(self, number, failures):
        self.number, self.failures, self.rows = number, failures, 0
        self.has_ended = threading.Event()
        self.is_to_leave = False
        self.how = ""

    def start(self, timeout):
        if self.failures:
            raise self.failures.pop(0)
        self.address = f"http://{self.number}"

    def wait(self):
        assert self.has_ended.wait(LONG)
        return self.how

    def waiting(self):
        return self.rows

    def leave(self):
        self.is_to_leave = True

    def close(self):
        self.end("stopped")

    def kill(self):
        self.end("killed")

    def end(self, how):
        self.how = self.how or how
        self.has_ended.set()


class Kept:
    """Servers that the test controls, the servers made so far, and the messages."""

    def __init__(self, least=1, most=1, failures=()):
        self.made, self.failures, self.said = [], list(failures), []
        self.known_to_leave = {}  # by the number of a new server: which others are to leave
        self.heard = threading.Condition()
        self.servers = Servers(self._make, (least, most), self._say)

    def _make(self, number):
        self.known_to_leave[number] = [one.number for one in self.made if one.is_to_leave]
        self.made.append(Told(number, self.failures))
        return self.made[-1]

    def _say(self, text):
        with self.heard:
            self.said.append(text)
            self.heard.notify_all()

    def until_said(self, text, count=1):
        with self.heard:
            assert self.heard.wait_for(lambda: self.said.count(text) >= count, LONG), self.said


def test_all_answer_before_anybody_is_told_and_end_together():
    kept = Kept(2, 2)
    kept.servers.start()
    assert sorted(kept.servers.addresses) == ["http://0", "http://1"]
    kept.servers.stop()
    assert [one.how for one in kept.made] == ["stopped"] * 2
    assert kept.servers.addresses == []


def test_one_that_cannot_begin_is_raised_and_none_is_left():
    kept = Kept(2, 2, [ClusterError("no machine")])
    with pytest.raises(ClusterError, match="no machine"):
        kept.servers.start()
    assert kept.servers.addresses == []


def test_one_that_ends_is_told_and_another_takes_its_place():
    kept = Kept()
    kept.servers.start()
    kept.made[0].end("it ended with -9")
    kept.until_said("server 0 has ended: it ended with -9")
    kept.until_said("server 0 answers at http://0", 2)
    kept.servers.stop()
    assert len(kept.made) == 2


def test_a_new_one_answers_before_the_old_one_leaves():
    kept = Kept(2, 2)
    kept.servers.start()
    kept.servers.roll()
    assert sorted(kept.servers.addresses) == ["http://2", "http://3"]
    kept.until_said("server 0 has ended")
    kept.until_said("server 1 has ended")
    said = kept.said
    assert said.index("server 2 answers at http://2") < said.index("server 0 has ended")
    kept.servers.stop()


def test_one_that_is_replaced_knows_it_before_the_next_one_looks_for_a_machine():
    kept = Kept(3, 3)
    kept.servers.start()
    kept.servers.roll()
    assert [kept.known_to_leave[number] for number in (3, 4, 5)] == [[], [0], [0, 1]]
    kept.servers.stop()


def test_where_the_new_one_cannot_begin_the_old_ones_stay():
    kept = Kept(2, 2)
    kept.servers.start()
    kept.failures.append(ClusterError("a bad archive"))
    kept.servers.roll()
    assert sorted(kept.servers.addresses) == ["http://0", "http://1"]
    assert any("not replaced, the old servers stay: a bad archive" in x for x in kept.said)
    kept.servers.stop()


def test_there_is_one_more_where_rows_wait_and_one_less_where_none_do():
    kept = Kept(1, 2)
    kept.servers.start()
    kept.made[0].rows = 100
    for _ in range(3):
        kept.servers.look()
    kept.until_said("server 1 answers at http://1")
    for _ in range(6):
        kept.servers.look()
    assert len(kept.made) == 2, "there are more than the most"
    kept.made[0].rows = 0
    for _ in range(30):
        kept.servers.look()
    kept.until_said("server 1 has ended")
    assert kept.servers.addresses == ["http://0"]
    kept.servers.stop()


def test_there_is_one_less_also_where_a_row_waits_now_and_then():
    kept = Kept(2, 3)
    kept.servers.start()
    kept.made[0].rows = 100
    for _ in range(3):
        kept.servers.look()
    kept.until_said("server 2 answers at http://2")
    for turn in range(60):
        kept.made[0].rows = 3 if turn % 5 == 0 else 0  # fewer than one row on average
        kept.servers.look()
    kept.until_said("server 2 has ended")
    kept.servers.stop()


def test_there_are_as_many_where_rows_wait_though_few():
    kept = Kept(1, 2)
    kept.servers.start()
    kept.made[0].rows = 100
    for _ in range(3):
        kept.servers.look()
    kept.until_said("server 1 answers at http://1")
    kept.made[0].rows = 2
    for _ in range(60):
        kept.servers.look()
    assert sorted(kept.servers.addresses) == ["http://0", "http://1"]
    kept.servers.stop()


def test_one_that_finds_no_machine_is_not_waited_for_when_no_rows_wait():
    kept = Kept(1, 3)
    kept.servers.start()
    kept.failures.extend([ClusterError("no machine")] * 1000)
    kept.made[0].rows = 100
    for _ in range(3):
        kept.servers.look()
    kept.until_said("server 1 does not begin: no machine")
    kept.made[0].rows = 0
    for _ in range(30):
        kept.servers.look()
    kept.failures.clear()
    kept.made[0].rows = 100
    for _ in range(3):
        kept.servers.look()
    kept.until_said("server 2 answers at http://2")
    assert sorted(kept.servers.addresses) == ["http://0", "http://2"]
    kept.servers.stop()


def test_all_are_killed_at_once_also_while_they_begin():
    kept = Kept(2, 2)
    kept.servers.start()
    kept.servers.kill()
    kept.servers.stop()
    assert [one.how for one in kept.made] == ["killed"] * 2


# -- real ones ------------------------------------------------------------------------------------
