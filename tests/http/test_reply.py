"""Tests of the replies to errors."""

import pytest

from modelflow.errors import BadRequest, DeadlineExceeded, FlowUnitError
from modelflow.http.reply import reply_of_error


@pytest.mark.parametrize(
    ("cause", "is_refusal", "status"),
    [
        (DeadlineExceeded("too late"), False, 504),
        (BadRequest("no JPEG"), True, 400),
        (ValueError("no JPEG"), True, 400),
        (ValueError("a bug"), False, 500),
        (RuntimeError("a bug"), False, 500),
    ],
)
def test_an_error_is_answered_by_its_cause(cause, is_refusal, status):
    error = FlowUnitError.from_exception(cause, node="n", unit="u", is_refusal=is_refusal)
    assert reply_of_error(error).status == status
