"""Tests of errors that cross processes: the cause looks the same as in the unit's process."""

import builtins
import pickle

import pytest

from modelflow import errors
from modelflow.errors import BadRequest, FlowFailed, FlowUnitError
from modelflow.ipc.cause import Cause, cause_of


class OwnError(KeyError):
    """A user's exception, whose constructor needs more than a text."""

    def __init__(self, one, two):
        super().__init__(f"{one}, {two}")


class SilentError(BadRequest):
    """An error whose ``str`` raises."""

    def __str__(self):
        raise RuntimeError


def crossed(cause):
    error = FlowUnitError("it says", node="n", unit="u")
    error.__cause__ = cause
    return pickle.loads(pickle.dumps(cause_of(error))).exception()


@pytest.mark.parametrize(
    "cause",
    [
        ZeroDivisionError("division by zero"),
        ValueError("no picture"),
        BadRequest("got 1"),
        OSError("gone"),
        Exception("plain"),
    ],
    ids=lambda cause: type(cause).__name__,
)
def test_what_is_pythons_or_ours_is_of_its_class(cause):
    there = crossed(cause)
    assert type(there) is type(cause)
    assert str(there) == str(cause)


@pytest.mark.parametrize(
    ("cause", "base"),
    [
        (OwnError("a", "b"), KeyError),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no"), UnicodeDecodeError),
        (KeyError("k"), KeyError),
        (OSError(2, "No such file", "a.jpg"), FileNotFoundError),
    ],
    ids=lambda case: getattr(case, "__name__", None),
)
def test_what_is_not_made_of_a_text_has_its_name_its_text_and_the_nearest_class(cause, base):
    there = crossed(cause)
    assert type(there).__name__ == type(cause).__name__
    assert isinstance(there, base)
    assert str(there) == str(cause)


def test_a_group_has_those_that_are_in_it():
    inner = ExceptionGroup("inner", [OwnError("a", "b")])
    cause = FlowFailed("two", [ValueError("one"), inner])
    there = crossed(cause)
    assert isinstance(there, FlowFailed)
    assert str(there) == str(cause)
    first, second = there.exceptions
    assert (type(first), str(first)) == (ValueError, "one")
    assert isinstance(second, ExceptionGroup)
    assert isinstance(second.exceptions[0], KeyError)


def test_every_class_that_is_known_can_be_made_whatever_it_is_made_of():
    for name in {*dir(builtins), *dir(errors)}:
        cause = Cause(name, (name, "Exception"), "it says", (Cause("One", (), "one"),))
        made = cause.exception()
        assert str(made).strip("'") == "it says", name


def test_one_that_cannot_say_what_it_is_is_still_of_its_kind():
    there = crossed(SilentError())
    assert isinstance(there, BadRequest)
    assert str(there) == ""


def test_what_has_no_cause_has_none():
    assert cause_of(FlowUnitError("nobody raised it")) is None
