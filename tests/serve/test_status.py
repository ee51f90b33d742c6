"""What failures are called."""

import pytest

from modelflow.errors import (
    Cancelled,
    DeadlineExceeded,
    FlowUnitError,
    NoReplicaError,
    QueueFullError,
    ReplicaLostError,
    StreamClosed,
)
from modelflow.serve.requests.status import GRPC_STATUS, HTTP_STATUS, problem_of
from modelflow.wire.problem import Code, Problem


def of_unit(cause, **more):
    return FlowUnitError.from_exception(cause, node="decode", unit="image_decoder", **more)


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (Problem("no", Code.NOT_FOUND), Code.NOT_FOUND, "no"),
        (
            of_unit(ValueError("no JPEG"), is_refusal=True),
            Code.INVALID_ARGUMENT,
            "node 'decode': no JPEG",
        ),
        (of_unit(DeadlineExceeded("late")), Code.DEADLINE_EXCEEDED, "deadline passed"),
        (DeadlineExceeded("late"), Code.DEADLINE_EXCEEDED, "deadline passed"),
        (QueueFullError("is full"), Code.RESOURCE_EXHAUSTED, "is full"),
        (Cancelled("x"), Code.CANCELLED, "was cancelled"),
        (StreamClosed("x"), Code.UNAVAILABLE, "being stopped"),
        (of_unit(NoReplicaError("10.0.0.7: no room")), Code.UNAVAILABLE, "node 'decode': nothing"),
    ],
    ids=lambda value: value if isinstance(value, Code) else "",
)
def test_every_failure_has_a_code_and_a_text(error, code, text):
    problem = problem_of(error)
    assert problem.code is code
    assert text in str(problem)


def test_the_item_is_named_where_there_are_several():
    assert (
        str(problem_of(of_unit(ValueError("no"), is_refusal=True), 3))
        == "item 3: node 'decode': no"
    )


def test_what_failed_inside_is_not_told():
    assert problem_of(of_unit(ZeroDivisionError("secret"))) is None
    assert problem_of(of_unit(ValueError("assignment destination is read-only"))) is None
    assert problem_of(of_unit(ReplicaLostError("done once, perhaps"))) is None
    assert "10.0.0.7" not in str(problem_of(of_unit(NoReplicaError("10.0.0.7: no room"))))


def test_every_code_has_a_status_of_both_protocols():
    assert set(HTTP_STATUS) == set(GRPC_STATUS) == set(Code)
    assert sorted(GRPC_STATUS.values()) == list(range(1, 17))
