"""Compares the cost of a hit of the response cache with the cost of a call of the model.

python benchmarks/cache_cost.py [--seconds 3] [--rounds 5] [--quick]

The small model is a network of two layers on ONNX Runtime: 784 floats in, 10 out. Requests are
binary Open Inference. Servers without and with `--cache` take turns. Each gets the same request
again and again: without the cache each is a call of the model, with the cache all but the first are
hits. The cost is the processor time of the server's process for each answer.
"""

import argparse
import json
import tempfile
from collections import defaultdict
from pathlib import Path

import numpy as np
import onnx
from machine import machine
from measure import print_table
from onnx import TensorProto, helper, numpy_helper
from served import Served
from serving import asked

WIDTH, HIDDEN, CLASSES = 784, 512, 10
CONNECTIONS = (1, 8)


def write_model(path: Path) -> None:
    """Writes the network."""
    random = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(random.standard_normal(shape).astype(np.float32), name)
        for name, shape in (("a", (WIDTH, HIDDEN)), ("b", (HIDDEN, HIDDEN)), ("c", (HIDDEN, 10)))
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["h"]),
        helper.make_node("Relu", ["h"], ["i"]),
        helper.make_node("MatMul", ["i", "b"], ["j"]),
        helper.make_node("Relu", ["j"], ["k"]),
        helper.make_node("MatMul", ["k", "c"], ["y"]),
    ]
    ports = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", width])
        for name, width in (("x", WIDTH), ("y", CLASSES))
    ]
    graph = helper.make_graph(nodes, "small", ports[:1], ports[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)


def write_request(path: Path) -> None:
    """Writes a request of one row, head and body."""
    data = np.linspace(0, 1, WIDTH, dtype=np.float32).tobytes()
    tensor = {"name": "x", "datatype": "FP32", "shape": [1, WIDTH]}
    tensor["parameters"] = {"binary_data_size": len(data)}
    text = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    head = (
        "POST /v2/models/small/infer HTTP/1.1\r\nHost: x\r\n"
        f"Inference-Header-Content-Length: {len(text)}\r\n"
        f"Content-Length: {len(text) + len(data)}\r\n\r\n"
    )
    path.write_bytes(head.encode() + text + data)


def main() -> None:
    """Measures, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="only show that the program runs")
    given = parser.parse_args()
    seconds, rounds = (0.2, 1) if given.quick else (given.seconds, given.rounds)
    found: dict[tuple[str, int], list[tuple[float, float]]] = defaultdict(list)
    with machine() as ran_on, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_model(folder / "small.onnx")
        write_request(folder / "request")
        for _ in range(rounds):
            for kind, more in (("call", ()), ("hit", ("--cache", "1MiB"))):
                with Served(f"small={folder / 'small.onnx'}", *more) as server:
                    for connections in CONNECTIONS:
                        asked(server.port, folder / "request", connections, seconds / 4)  # warm
                        before = server.cpu()
                        seen = asked(server.port, folder / "request", connections, seconds)
                        cost = (server.cpu() - before) / seen["answers"] * 1e6
                        found[kind, connections].append((cost, seen["rate"]))
    rows: list[list[object]] = []
    for connections in CONNECTIONS:
        cost, rate = (dict.fromkeys(("call", "hit"), 0.0) for _ in range(2))
        for kind in cost:
            cost[kind], rate[kind] = np.median(found[kind, connections], axis=0).tolist()
        ratio = f"{cost['hit'] / cost['call']:.2f}x"
        row = [connections, cost["call"], cost["hit"], ratio, rate["call"], rate["hit"]]
        rows.append(row)
    columns = ["connections", "call, us CPU", "hit, us CPU", "hit/call", "calls/s", "hits/s"]
    print_table(
        "Response cache before a small model (goal: a hit <= 0.5x of a call)", columns, rows
    )
    print(f"\n{ran_on}")


if __name__ == "__main__":
    main()
