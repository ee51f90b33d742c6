"""What a client is told of an error."""

import pytest

from modelflow.errors import DeadlineExceeded, FlowUnitError
from modelflow.http.reply import reply_of_error


@pytest.mark.parametrize(
    ("cause", "status"),
    [
        (DeadlineExceeded("too late"), 504),
        (ValueError("no JPEG"), 400),
        (RuntimeError("a bug"), 500),
    ],
)
def test_an_error_is_answered_by_its_cause(cause, status):
    error = FlowUnitError.from_exception(cause, node="n", unit="u")
    assert reply_of_error(error).status == status
