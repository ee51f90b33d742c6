"""Tests of several watchers of one session."""

from modelflow.runtime.session.watcher import Watchers


class Noting:
    def __init__(self):
        self.told = []

    def on_call(self, part):
        self.told.append(part)

    def over(self):
        self.told.append("over")


def test_each_is_told_of_everything():
    one, other = Noting(), Noting()
    both = Watchers(one, other)
    both.on_call("part")
    both.over()
    assert one.told == other.told == ["part", "over"]
