"""The model as a graph, served by `modelflow.serve.Server`: HTTP's port, gRPC's, its server."""

import sys
import threading
from dataclasses import replace

from mean import BATCH, Row, means

import modelflow
from modelflow.device.heap import freeze_heap
from modelflow.serve.options import GrpcKind
from modelflow.serve.server import ServeOptions, Server

GRAPH = f"""
[graph]
graphconf = '''digraph mean {{
    rows [type=input]
    mean [flowunit=mean, batch_size={BATCH}]
    means [type=output]
    rows -> mean -> means
}}'''
[serve.input.rows]
datatype = "FP32"
shape = [-1]
[serve.output.means]
datatype = "FP32"
shape = []
"""


@modelflow.flowunit(batched=True)
def mean(rows: list[Row]) -> list[float]:
    """Gives the means of rows."""
    return means(rows)


if __name__ == "__main__":
    flow = modelflow.Flow(GRAPH, units=[mean])
    options = ServeOptions(http_port=int(sys.argv[1]))
    if len(sys.argv) > 2:
        port, kind = sys.argv[2:]
        options = replace(options, grpc_port=int(port), grpc_server=GrpcKind(kind))
    sys.setswitchinterval(0.001)  # this and the settled heap are as `modelflow serve` has them
    with freeze_heap(), Server({"mean": flow}, options):
        threading.Event().wait()
