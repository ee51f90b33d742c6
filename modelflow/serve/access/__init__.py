"""What every request passes first: id, key, route, access log, CORS, TLS.

In: the head of an HTTP request, or the metadata of a gRPC call.
Out: a `RequestContext` (id, trace, line of the log), or an error reply.

`AccessControl` reads keys and certificates before anything listens. Requests without id, key and
log have no context and pay nothing.
"""
