"""Flows on the network: models for the clients of TensorFlow Serving and Triton.

In: `ServeOptions`, a `ServeConfig`, and requests over HTTP and gRPC. Out: replies.

- ``http/`` and ``access/`` receive a request.
- ``rest/`` and ``grpc/`` read and write the protocols.
- ``requests/`` runs a request through a flow.
- ``repository/`` loads and unloads models.
- ``processes/`` runs several processes behind one port.
- ``metrics/`` counts requests and writes traces.

``server.py`` owns the event loop, the loader and the models of one process.
"""
