"""Requests of a process to the models of another process.

Inputs are the arrays and the deadline of a request. The answers arrive by callbacks, as for a model
in this process. A `RequestServer` answers requests for its models. An `RpcClient` sends it the
requests to `RemoteModel`s, which the `ModelDirectory` describes.
"""
