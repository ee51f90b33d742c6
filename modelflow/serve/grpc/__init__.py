"""Served models over gRPC.

The modules of the protocols implement the methods. A `Service` lists its methods. A method gets an
`Rpc` and a message, and answers now or later. The servers (`grpcio_server.py`, `http2/`) read the
messages from the network and send the replies.
"""
