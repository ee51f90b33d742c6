"""Requests over HTTP, as flow units take and answer them.

Importing this package loads neither the server (uvicorn) nor asyncio: `listener.py` and what builds
on it do.
"""

from modelflow.serve.endpoint import Endpoint, read_endpoint
from modelflow.serve.options import ListenOptions

__all__ = ["Endpoint", "ListenOptions", "read_endpoint"]
