"""A model that costs nothing, the first number of each row, to measure the server alone."""

import os
import sys
import threading
from pathlib import Path

import numpy as np
import numpy.typing as npt

import modelflow
from modelflow.device.heap import freeze_heap
from modelflow.serve.server import ServeOptions, Server

GRAPH = """
[graph]
graphconf = '''digraph first {
    rows [type=input]
    first [flowunit=first, batch_size=32]
    firsts [type=output]
    rows -> first -> firsts
}'''
[serve.input.rows]
datatype = "FP32"
shape = [-1]
[serve.output.firsts]
datatype = "FP32"
shape = []
"""


@modelflow.flowunit(batched=True)
def first(rows: list[npt.NDArray[np.float32]]) -> list[float]:
    """Gives the first number of each row."""
    return [float(row[0]) for row in rows]


if __name__ == "__main__":
    flow = modelflow.Flow(GRAPH, units=[first])
    keys, log = os.environ.get("FIRST_KEYS"), os.environ.get("FIRST_LOG")
    options = ServeOptions(
        http_port=int(sys.argv[1]), access_log=log, key_file=Path(keys) if keys else None
    )
    sys.setswitchinterval(0.001)  # this and the settled heap are as `modelflow serve` has them
    with freeze_heap(), Server({"first": flow}, options):
        threading.Event().wait()
