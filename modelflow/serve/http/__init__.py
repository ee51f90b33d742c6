"""The handler of HTTP requests, and the pages beside the protocols.

In: `HttpRequest` values. Out: replies of the router's endpoints, ``/metrics``, ``/stats``,
``/dashboard``, ``/docs`` and ``/openapi.json``.
"""
