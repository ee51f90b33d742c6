"""The handler of HTTP requests, and the pages that belong to no protocol.

In: `HttpRequest` values. Out: replies of the router's endpoints, ``/metrics``, ``/stats``,
``/dashboard``, ``/docs`` and ``/openapi.json``.
"""
