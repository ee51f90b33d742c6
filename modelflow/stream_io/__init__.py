"""One session or one request, as its user holds it: send, receive, end, cancel.

In: arrays and values of the application. Out: buffers with results, or errors.

`StreamIO` is a session; `Request` is all values of a request at once with a callback. What is sent
gets a header of its own, so units never change the caller's objects.
"""

from modelflow.stream_io.awaiting import wait_until_deadline
from modelflow.stream_io.stream_io import StreamIO
from modelflow.stream_io.values import answer_of, unwrap_output, wrap_input

__all__ = ["StreamIO", "answer_of", "unwrap_output", "wait_until_deadline", "wrap_input"]
