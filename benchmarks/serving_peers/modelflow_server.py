"""The model as a graph, served by `modelflow.serve.Server`."""

import sys
import threading

from mean import BATCH, Row, means

import modelflow
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
    with Server({"mean": flow}, ServeOptions(http_port=int(sys.argv[1]))):
        threading.Event().wait()
