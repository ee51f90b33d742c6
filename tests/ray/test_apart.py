"""Tests of servers that must run on different machines, on a simulated cluster."""

import threading

import pytest

from modelflow.config.placement import PlacementConfig
from modelflow.remote.ray.cluster import ClusterError, Machine
from modelflow.remote.ray.host_servers import HostServers

LONG = 60
NODE = "ray.io/node-id"


class Machines:
    def __init__(self, *names):
        self.names = names

    def machines(self):
        return [Machine(name, {"CPU": 2.0}, {NODE: name}) for name in self.names]


@pytest.fixture
def apart():
    return HostServers(Machines("a", "b"), PlacementConfig("server", resources={"CPU": 1}))


def begin(apart, name, machine, is_over=lambda: False):
    with apart.placing(is_over) as (labels, placed):
        placed(name, machine)
    return labels


def test_the_next_one_is_on_none_of_the_machines_that_have_one(apart):
    assert begin(apart, "one", "a") == {}
    assert begin(apart, "two", "b") == {NODE: "!in(a)"}
    apart.on_end("one")
    assert begin(apart, "three", "a") == {NODE: "!in(b)"}


def test_where_each_machine_has_one_that_stays_it_is_told_what_to_do(apart):
    begin(apart, "one", "a")
    begin(apart, "two", "b")
    with pytest.raises(ClusterError, match=r"all 2 have one\. Add a machine, or .* \(port 0\)"):
        begin(apart, "three", "a")


def test_the_machine_of_one_that_leaves_is_waited_for(apart):
    leaves = threading.Event()
    begin(apart, "one", "a", leaves.is_set)
    begin(apart, "two", "b")
    leaves.set()
    found = []
    waits = threading.Thread(target=lambda: found.append(begin(apart, "three", "a")), name="waits")
    waits.start()
    apart.on_end("one")
    waits.join(LONG)
    assert found == [{NODE: "!in(b)"}]


def test_who_waits_ends_when_it_is_over(apart):
    leaves = threading.Event()
    begin(apart, "one", "a", leaves.is_set)
    begin(apart, "two", "b")
    leaves.set()
    with (
        pytest.raises(ClusterError, match="stopped before it had started"),
        apart.placing(lambda: True),
    ):
        pass


def test_one_that_could_not_be_placed_keeps_nobody_waiting(apart):
    with pytest.raises(ClusterError, match="no room"), apart.placing(lambda: False):
        message = "no room"
        raise ClusterError(message)
    assert begin(apart, "two", "a") == {}
