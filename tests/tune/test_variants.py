"""Tests of variants that need a new start: which are tried, and which is chosen."""

import pytest

from modelflow.errors import TuningError
from modelflow.insight.tune.restart_trials import try_variants
from modelflow.insight.tune.search import Goal


class Graph:
    """A graph with given measurements: changes, as a text -> rates and latencies, one a trial."""

    def __init__(self, **found):
        self.asked, self._found = [], {name: iter(trials) for name, trials in found.items()}

    def measure(self, changes):
        self.asked.append(dict(changes))
        name = "_".join(changes.values()) or "as_it_is"
        rate, latency = next(self._found[name])
        if not rate:
            message = "it does not start"
            raise TuningError(message)
        return rate, latency


VALUES = {"infer.intra_op_threads": ["one", "two"], "infer.device": ["far"]}
ALL = {"one": [(1, 1)], "two": [(1, 1)], "far": [(1, 1)], "one_far": [(1, 1)], "two_far": [(1, 1)]}


def test_every_combination_is_tried_and_the_best_compared_twice():
    graph = Graph(**{**ALL, "as_it_is": [(100, 1), (90, 1)], "two_far": [(150, 1), (120, 1)]})
    report = try_variants(graph.measure, VALUES, Goal())
    assert [len(one) for one in graph.asked] == [0, 1, 1, 2, 1, 2, 0, 2]
    assert report.changes == {"infer.intra_op_threads": "two", "infer.device": "far"}
    assert report.gain == pytest.approx(0.5)
    assert len(report.tried) == 8


def test_where_none_is_better_none_is_compared():
    graph = Graph(**ALL, as_it_is=[(2, 1)])
    report = try_variants(graph.measure, VALUES, Goal())
    assert (report.changes, report.gain, len(graph.asked)) == ({}, 0.0, 6)


def test_a_gain_that_was_chance_is_none():
    graph = Graph(as_it_is=[(100, 1), (150, 1)], one=[(120, 1), (119, 1)])
    assert try_variants(graph.measure, {"a.b": ["one"]}, Goal()).changes == {}
    graph = Graph(as_it_is=[(100, 1), (100, 1)], one=[(102, 1), (102, 1)])
    assert try_variants(graph.measure, {"a.b": ["one"]}, Goal()).changes == {}


def test_what_is_demanded_goes_first():
    bound = Goal(99.0, 0.5)
    graph = Graph(as_it_is=[(100, 0.4), (100, 0.4)], one=[(200, 0.4), (200, 0.6)])
    assert try_variants(graph.measure, {"a.b": ["one"]}, bound).changes == {}
    graph = Graph(as_it_is=[(100, 0.9), (100, 0.9)], one=[(50, 0.4), (50, 0.4)])
    assert try_variants(graph.measure, {"a.b": ["one"]}, bound).changes == {"a.b": "one"}


def test_what_cannot_be_measured_is_told_and_the_others_go_on():
    told = []
    graph = Graph(as_it_is=[(1, 1), (1, 1)], one=[(0, 0)], two=[(2, 1), (2, 1)])
    report = try_variants(graph.measure, {"a.b": ["one", "two"]}, Goal(), told.append)
    assert report.failed == ("a.b=one: it does not start",)
    assert report.changes == {"a.b": "two"}
    assert told[1] == "  not tried: a.b=one: it does not start"
    with pytest.raises(TuningError):
        try_variants(Graph(as_it_is=[(0, 0)]).measure, {"a.b": ["one"]}, Goal())
