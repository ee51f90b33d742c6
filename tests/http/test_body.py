"""Bodies within bounds."""

import pytest

from modelflow.http.reply import Body, BodyBudget, BodyLimits, RefusedError


def limits(most=100, budget=1000):
    return BodyLimits(most, BodyBudget(budget), 1.0)


@pytest.mark.parametrize(
    "parts",
    [[], [b"abc"], [b"a", b"b", b"c"], [b"x" * 2000, b"y", b"z", b"w" * 3000]],
    ids=["empty", "one", "small", "mixed"],
)
def test_a_body_is_what_has_come(parts):
    body = Body(limits(10_000, 10_000), None)
    for part in parts:
        body.add(part)
    assert body.whole() == b"".join(parts)
    assert body.size == sum(map(len, parts))


def test_one_that_comes_at_once_is_not_copied():
    body, part = Body(limits(), None), b"abc"
    body.add(part)
    assert body.whole() is part


def test_small_parts_cost_no_object_each():
    body = Body(limits(10_000, 10_000), None)
    for _ in range(5000):
        body.add(b"x")
    assert len(body._parts) <= 2


def test_one_that_is_announced_too_long_is_refused():
    with pytest.raises(RefusedError) as refused:
        Body(limits(most=10), 11)
    assert refused.value.reply.status == 413
    Body(limits(most=10), 10)


def test_one_that_becomes_too_long_is_refused():
    body = Body(limits(most=10), None)
    body.add(b"x" * 10)
    with pytest.raises(RefusedError) as refused:
        body.add(b"x")
    assert refused.value.reply.status == 413


def test_all_together_are_bounded_and_bytes_are_given_back():
    bounds = limits(budget=10)
    one, other = Body(bounds, None), Body(bounds, None)
    one.add(b"x" * 8)
    with pytest.raises(RefusedError) as refused:
        other.add(b"x" * 3)
    assert refused.value.reply.status == 503
    other.add(b"xx")
    one.drop()
    other.add(b"x" * 8)
    other.drop()
    assert bounds.budget.taken == 0
