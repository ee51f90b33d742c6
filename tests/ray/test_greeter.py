"""Tests of the first answer from a machine with another version."""

import pickle
import sys

import pytest

from modelflow.remote.ray.actor_loader import ActorLoader
from modelflow.remote.ray.cluster import versions

NOTHING = pickle.dumps(())
OTHER = pickle.dumps((dict, ([("asked", 1)],)))


def test_where_versions_agree_it_keeps_what_it_was_told_to_make(tmp_path):
    greeter = ActorLoader(versions(), [str(tmp_path)], OTHER)
    assert greeter.call("copy", NOTHING) == {"asked": 1}
    assert sys.path.pop() == str(tmp_path)


@pytest.mark.parametrize("ours", [("3.9", versions()[1]), (versions()[0], "0.0.1")])
def test_what_differs_is_told_in_one_line_and_nothing_is_unpickled(ours):
    greeter = ActorLoader(ours, [], b"not to be read")
    with pytest.raises(RuntimeError) as caught:
        greeter.call("copy", NOTHING)
    line = str(caught.value)
    assert "\n" not in line
    for words in (" and modelflow ".join(versions()), f"expected Python {ours[0]}", ours[1]):
        assert words in line


def test_a_machine_without_modelflow_says_so(monkeypatch):
    expected = versions()
    monkeypatch.setitem(sys.modules, "modelflow", None)
    greeter = ActorLoader(expected, [], b"")
    with pytest.raises(RuntimeError, match=r"and modelflow none \(.*modelflow"):
        greeter.call("copy", NOTHING)
