"""Requests over HTTP, as flow units take and answer them.

Importing this package does not load the server (uvicorn); opening a `Listener` does.
"""

from modelflow.serve.endpoint import Endpoint, read_endpoint
from modelflow.serve.listener import Limits, Listener
from modelflow.serve.reply import Reply, reply_of, reply_of_error, reply_of_status
from modelflow.serve.request import PendingRequest
from modelflow.serve.request_source import REQUEST, RequestSource

__all__ = [
    "REQUEST",
    "Endpoint",
    "Limits",
    "Listener",
    "PendingRequest",
    "Reply",
    "RequestSource",
    "read_endpoint",
    "reply_of",
    "reply_of_error",
    "reply_of_status",
]
