"""Requests of one process to the models of another, and what it knows of them.

In: arrays and deadlines of a request. Out: its answers, each by a callback, as of a model that runs
here. A `RequestServer` answers for the models; an `RpcClient` asks it for `RemoteModel`s, which the
`ModelDirectory` describes.
"""
