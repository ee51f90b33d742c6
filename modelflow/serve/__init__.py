"""Flows on the network: models for the clients of TensorFlow Serving and Triton.

In: `ServeOptions`, a `ServeConfig`, and requests over HTTP and gRPC. Out: replies.

``http/`` and ``access/`` receive a request, ``rest/`` and ``grpc/`` read and write the protocols,
``requests/`` brings it through a flow, ``repository/`` loads and unloads models, ``processes/``
runs several processes behind one port, ``metrics/`` counts. ``server.py`` owns the event loop, the
loader and the models of one process.
"""
