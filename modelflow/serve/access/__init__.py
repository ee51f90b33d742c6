"""The first steps for every request: id, key, route, access log, CORS, TLS.

In: the head of an HTTP request, or the metadata of a gRPC call.
Out: a `RequestContext` (id, trace, log line), or an error reply.

`AccessControl` reads keys and certificates before a port opens. A request gets no context, and
costs nothing here, unless it has an id or the server has keys, an access log or tracing.
"""
