"""The HTTP server, of `modelflow.serve` and of flow units that listen.

In: connections at an address, or descriptors of another process. Out: an `HttpRequest` for each
request, for a handler on the server's event loop; replies in the order of the requests.

Importing this package loads neither the parser (httptools) nor asyncio: `listener.py` and what
builds on it do.
"""

from modelflow.http.options import Endpoint, ListenOptions, read_endpoint

__all__ = ["Endpoint", "ListenOptions", "read_endpoint"]
