"""One session as its user holds it: send, receive, end, cancel."""

from modelflow.stream_io.awaiting import wait_until_deadline
from modelflow.stream_io.stream_io import StreamIO
from modelflow.stream_io.values import answer_of, unwrap_output, wrap_input

__all__ = ["StreamIO", "answer_of", "unwrap_output", "wait_until_deadline", "wrap_input"]
