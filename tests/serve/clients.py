"""Served flows, and plain clients for them."""

import http.client
import json

import numpy as np
import pytest

import modelflow
from modelflow.serve.options import GrpcKind
from modelflow.serve.server import ServeOptions, Server
from modelflow.unit import function

TYPED = """
[graph]
format = "graphviz"
graphconf = '''digraph m {{
    input [type=input]
    mean [{node}]
    output [type=output]
    input -> mean -> output
}}'''
[serve.input.input]
datatype = "FP32"
shape = [-1]
[serve.output.output]
datatype = "FP32"
shape = []
labels = ["small", "large"]
"""


@modelflow.flowunit(name="mean")
def mean(row):
    """Returns the mean of a row."""
    if not len(row):
        raise modelflow.BadRequest("there is nothing to take the mean of")
    if row[0] < 0:
        raise ZeroDivisionError("a secret")
    return np.float32(np.mean(row))


# Else the unit would be declared for every test in this process, and appear in the manual.
del function._declared["mean"]


def served(unit=mean, node="batch_size=8", **options):
    """Returns a server with the model "m", of one input and one output of numbers."""
    flow = modelflow.Flow(TYPED.format(node=node), units=[unit])
    return Server({"m": flow}, ServeOptions(http_port=0, **options))


def send(server, method, path, body=None, headers=None):
    """Sends a request over a new connection; returns status, headers in lower case, and body."""
    connection = http.client.HTTPConnection(server.address.removeprefix("http://"), timeout=60)
    try:
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        found = {name.lower(): value for name, value in response.getheaders()}
        return response.status, found, response.read()
    finally:
        connection.close()


def ask(server, path, document=None, method=None, headers=None):
    """Sends JSON; returns status, document, and headers."""
    body = document if document is None or isinstance(document, bytes) else json.dumps(document)
    method = method or ("GET" if document is None else "POST")
    status, found, text = send(server, method, path, body, headers)
    return status, json.loads(text) if text else None, found


of_rest = pytest.mark.parametrize("grpc_server", [GrpcKind.NATIVE], indirect=True, ids=str)
"""Marks tests of REST, whose result does not depend on the gRPC server."""
