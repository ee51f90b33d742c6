"""Tests of the codes and texts of failures."""

import re

import pytest

from modelflow.errors import (
    Cancelled,
    ConfigError,
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
        (
            of_unit(NoReplicaError("10.0.0.7: no room")),
            Code.UNAVAILABLE,
            "node 'decode': no replica",
        ),
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


@pytest.mark.parametrize(
    "error",
    [
        of_unit(ZeroDivisionError("secret")),
        of_unit(ValueError("a secret, and read-only")),
        of_unit(ReplicaLostError("a secret, done once, perhaps")),
        ValueError("a secret of our own code"),
        ConfigError("/a/secret/path"),
    ],
    ids=repr,
)
def test_of_what_failed_inside_a_client_is_told_an_id_and_the_log_the_rest(error, caplog):
    problem = problem_of(error)
    assert problem.code is Code.INTERNAL
    assert "secret" not in str(problem)
    (number,) = re.findall(r"under the id (\w{12})$", str(problem))
    assert f"request {number} failed" in caplog.text
    assert "secret" in caplog.text


def test_what_has_no_replica_does_not_tell_where():
    assert "10.0.0.7" not in str(problem_of(of_unit(NoReplicaError("10.0.0.7: no room"))))


def test_every_code_has_a_status_of_both_protocols():
    assert set(HTTP_STATUS) == set(GRPC_STATUS) == set(Code)
    assert sorted(GRPC_STATUS.values()) == list(range(1, 17))
