"""Tests of frozen dataclasses, which behave as the standard library defines."""

import copy
import dataclasses
import inspect
import pickle
import typing
from dataclasses import KW_ONLY, field

import pytest

from modelflow.dataclass import dataclass


def _define_fields(maker):
    @maker
    class Made:
        """A class with a field of each kind."""

        first: int
        second: str = "b"
        third: list[int] = field(default_factory=list)
        shown: int = field(default=4, repr=False, compare=False)
        made: list[int] = field(default_factory=lambda: [6], init=False)
        fixed: int = field(default=5, init=False)
        known: typing.ClassVar[int] = 7
        _: KW_ONLY
        key: float = 2.0
        other: tuple[int, ...] = ()

        def __post_init__(self):
            object.__setattr__(self, "second", self.second * 2)

    return Made


def _define_single(maker):
    @maker
    class Made:
        """A class with one field."""

        value: object

    return Made


def _define_empty(maker):
    @maker
    class Made:
        """A class without fields."""

    return Made


def _define_own(maker):
    @maker
    class Made:
        """A class with methods of its own."""

        value: int

        def __eq__(self, other):
            return isinstance(other, int)

        def __repr__(self):
            return "own"

    return Made


@pytest.fixture(params=[True, False], ids=["slots", "dict"])
def both(request):
    options = {"frozen": True, "slots": request.param}
    return lambda define, **more: [
        define(maker(**options, **more)) for maker in (dataclass, dataclasses.dataclass)
    ]


def _facts(made):
    """Returns all that a user can see of a class with the fields of `_Fields`."""
    one, same, other = made(1), made(1, shown=9), made(2, "c", [3], key=4.0)
    found = [repr(one), repr(other), one == same, one == other, one == 1]
    found += [dataclasses.asdict(other), dataclasses.replace(one, first=8).first]
    found += [str(inspect.signature(made)), made.__match_args__, one.known, one.fixed, one.made]
    found += [typing.get_type_hints(made.__init__), made.__init__.__qualname__, made.__doc__]
    found += [copy.deepcopy(other) == other, hasattr(one, "__dict__"), one.third is same.third]
    return found


def test_fields_of_each_kind_are_as_in_the_standard_library(both):
    ours, theirs = both(_define_fields)
    assert _facts(ours) == _facts(theirs)
    for made in (ours, theirs):
        with pytest.raises(TypeError, match=r"missing 1 required positional argument: 'first'"):
            made()
        with pytest.raises(TypeError, match="unhashable type: 'list'"):
            hash(made(1))


@pytest.mark.parametrize("values", [(1,), (float("nan"),), ([],)])
def test_a_single_field_is_compared_and_hashed_as_in_the_standard_library(both, values):
    ours, theirs = both(_define_single)
    assert (ours(*values) == ours(*values)) == (theirs(*values) == theirs(*values))
    if values != ([],):
        assert hash(ours(*values)) == hash(theirs(*values))


def test_a_class_without_fields_has_equal_objects(both):
    for made in both(_define_empty):
        assert (made() == made(), repr(made())[-6:], hash(made())) == (True, "Made()", hash(()))


def test_methods_of_the_class_itself_stay(both):
    for made in both(_define_own):
        assert (made(1) == 5, repr(made(1)), hash(made(2))) == (True, "own", hash((2,)))


def test_fields_cannot_be_set_or_deleted(both):
    for made in both(_define_single):
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'value'"):
            made(1).value = 2
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'value'"):
            del made(1).value


def test_a_subclass_may_have_attributes_of_its_own():
    made = _define_single(dataclass(frozen=True, slots=True))
    below = type("Below", (made,), {})(1)
    below.more = 3
    del below.more
    with pytest.raises(dataclasses.FrozenInstanceError):
        below.value = 2


def test_without_eq_each_object_is_equal_to_itself_alone(both):
    for made in both(_define_single, eq=False):
        one = made(1)
        assert one != made(1)
        assert hash(one) == object.__hash__(one)


def test_a_frozen_dataclass_may_derive_and_another_may_not(both):
    for made in both(_define_single):
        below = dataclasses.dataclass(frozen=True)(type("Below", (made,), {}))
        assert below(1) == below(1)
        with pytest.raises(TypeError, match="cannot inherit non-frozen"):
            dataclasses.dataclass(type("Other", (made,), {}))


@dataclass(frozen=True, slots=True)
class Pickled:
    """A class that `pickle` finds by name."""

    value: int
    other: int = 2


@dataclass(frozen=True)
class Derived(Pickled):
    """A class below another."""

    third: int = 3


@pytest.mark.parametrize("one", [Pickled(1), Derived(1, 2, 4)])
def test_objects_are_pickled_and_copied(one):
    assert pickle.loads(pickle.dumps(one)) == one == copy.copy(one)
    assert dataclasses.fields(one)[0].name == "value"
