"""Served models over gRPC.

What a method does is in the modules of the protocols: a `Service` names its methods, each is given
an `Rpc` and a message and answers now or later. How calls come in is `grpcio_server.py`'s alone.
"""
