"""The HTTP server of `modelflow.serve` and of flow units that listen.

In: connections at an address, or descriptors from another process. Out: an `HttpRequest` for each
request, for a handler on the server's event loop. Replies leave in the order of the requests.

Importing this package loads neither the parser (httptools) nor asyncio. Only `listener.py` and the
modules that import it load them.
"""

from modelflow.http.options import Endpoint, ListenOptions, read_endpoint

__all__ = ["Endpoint", "ListenOptions", "read_endpoint"]
