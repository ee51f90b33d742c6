"""The classes for a session or a request of a user: send, receive, end, cancel.

Input: arrays and values of the application. Output: buffers with results, or errors.

`StreamIO` is a session. `Request` holds all values of a request, and calls a callback with the
answer. Each value is sent in a buffer of its own, so units never change the caller's objects.
"""

from modelflow.stream_io.awaiting import wait_until_deadline
from modelflow.stream_io.stream_io import StreamIO
from modelflow.stream_io.values import answer_of, unwrap_output, wrap_input

__all__ = ["StreamIO", "answer_of", "unwrap_output", "wait_until_deadline", "wrap_input"]
