"""Requests over HTTP, as flow units take and answer them.

Importing this package loads neither the parser (httptools) nor asyncio: `listener.py` and what
builds on it do.
"""

from modelflow.http.options import Endpoint, ListenOptions, read_endpoint

__all__ = ["Endpoint", "ListenOptions", "read_endpoint"]
