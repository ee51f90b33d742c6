"""Compares a graph in one process with parts in other processes, and on a Ray cluster.

JPEG 640x480 -> decode -> resize | mean -> network, in batches of 16. The cluster is a fake: three
raylets of this machine with a store each. Arrays therefore do cross from store to store. The table
compares it with the same cut written by hand with Ray's actors, and with the whole as a job of Ray
Data. The ways take turns in every round. Processor time is the time of all processes, raylets and
store included.

    python benchmarks/far_nodes.py [--quick] [--rounds 4]
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnx
import ray
from image_pipeline import photograph
from machine import cpu_seconds, machine
from measure import print_table
from onnx import TensorProto, helper
from ray.cluster_utils import Cluster as FakeCluster

from modelflow import Flow
from modelflow.remote import PlacementEngine, ProcessEngine, place_nodes
from modelflow.remote.ray import RayEngine, connect
from modelflow.remote.ray.data import FlowActor

BATCH = 16
MEAN = np.float32([123.68, 116.78, 103.94])
UNIT = """
[base]
name = "network"
type = "inference"
virtual_type = "onnx"
entry = "network.onnx"
device = "cpu"
[input.input1]
name = "in"
[output.output1]
name = "out"
"""
# A stand-in for a GPU: 40 ms a call, of at most 8 rows.
STAND_IN = """
import time
import modelflow

@modelflow.flowunit(batched=True, batch_size=8, threads=1)
def stand_in(rows):
    time.sleep(0.04)
    return rows
"""
SLEEPING = """
[placement.far]
replicas = {count}
in_flight = 2
resources = {{ stand_in = 1 }}
[graph]
graphconf = '''digraph {{
    input [type=input]
    stand_in [flowunit="far_stand_in:stand_in", placement=far]
    output [type=output]
    input -> stand_in -> output
}}'''
"""
GRAPH = """
[placement.pixels]
resources = {{ pixels = 1 }}
[placement.model]
resources = {{ model = 1 }}
[driver]
dir = ["units"]
[graph]
graphconf = '''digraph {{
    input [type=input]
    decode [flowunit=image_decoder{pixels}]
    resize [image_width=224, image_height=224{pixels}]
    mean [mean="123.68,116.78,103.94"{model}]
    network [batch_size=16{model}]
    output [type=output]
    input -> decode -> resize -> mean -> network:in
    network:out -> output
}}'''
"""


def write_network(folder: Path) -> Path:
    """Writes a small network as a unit: (N, 224, 224, 3) float32 -> (N, 10)."""
    unit = folder / "units" / "network"
    unit.mkdir(parents=True)
    (unit / "network.toml").write_text(UNIT)
    weights = np.random.default_rng(0).normal(size=(3, 10)).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("ReduceMean", ["in"], ["pooled"], axes=[1, 2], keepdims=0),
            helper.make_node("MatMul", ["pooled", "weights"], ["out"]),
        ],
        "network",
        [helper.make_tensor_value_info("in", TensorProto.FLOAT, ["n", 224, 224, 3])],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, ["n", 10])],
        [onnx.numpy_helper.from_array(weights, "weights")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, unit / "network.onnx")
    return unit / "network.onnx"


def decoded(jpeg: bytes) -> np.ndarray:
    """Decodes and resizes by hand, as the first part of the graph does."""
    image = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR)
    return cv2.resize(image, (224, 224))


class Pixels:
    """An actor written by hand: decodes and resizes."""

    def __init__(self) -> None:
        cv2.setNumThreads(1)

    def run(self, jpegs: Sequence[bytes]) -> np.ndarray:
        """Returns a batch of images."""
        return np.stack([decoded(jpeg) for jpeg in jpegs])


class Network:
    """An actor written by hand: subtracts the mean, runs the network."""

    def __init__(self, path: str) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(path, options)

    def run(self, images: np.ndarray) -> np.ndarray:
        """Returns the scores of a batch."""
        return self._session.run(None, {"in": images.astype(np.float32) - MEAN})[0]


class Infer(Network):
    """The same network for Ray Data."""

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Adds the scores to the batch."""
        return {"scores": self.run(np.stack(list(batch["image"])))}


def by_graph(graph: Any) -> Callable[[Sequence[bytes]], np.ndarray]:
    """Returns a function that runs a flow on JPEGs."""
    flow = Flow(graph).start()
    OPEN.callback(flow.stop)

    def run(jpegs: Sequence[bytes]) -> np.ndarray:
        return np.array([answer.data for _, answer in flow.map(jpegs, in_flight=6 * BATCH)])

    return run


def scaled(engine: PlacementEngine, folder: Path, seconds: float) -> list[tuple[str, ...]]:
    """Returns a row for each number of replicas: the rate, and its part of the possible rate."""
    (folder / "far_stand_in.py").write_text(STAND_IN)
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    rows = []
    for count in (1, 2, 4, 8):
        possible = count * 8 / 0.04
        with Flow(place_nodes(SLEEPING.format(count=count), engine)) as flow:
            items = range(int(possible * seconds))
            for _ in flow.map(range(64 * count), in_flight=64 * count):
                pass  # warm
            start = time.perf_counter()
            found = [answer.data for _, answer in flow.map(items, in_flight=64 * count)]
            rate = len(items) / (time.perf_counter() - start)
        assert found == list(items)
        rows.append((str(count), f"{rate:.0f}", f"{rate / possible:.2f}"))
    return rows


def by_hand(path: Path) -> Callable[[Sequence[bytes]], np.ndarray]:
    """Returns the same pipeline as two kinds of actor, with six batches under way."""
    pixels = [
        ray.remote(Pixels).options(num_cpus=0, resources={"pixels": 0.5}).remote() for _ in range(2)
    ]
    network = ray.remote(Network).options(num_cpus=0, resources={"model": 1}).remote(str(path))

    def run(jpegs: Sequence[bytes]) -> np.ndarray:
        return np.concatenate(list(pipelined(jpegs)))

    def pipelined(jpegs: Sequence[bytes]) -> Iterator[np.ndarray]:
        under_way: deque[Any] = deque()
        for number, start in enumerate(range(0, len(jpegs), BATCH)):
            images = pixels[number % 2].run.remote(jpegs[start : start + BATCH])
            under_way.append(network.run.remote(images))
            if len(under_way) == 6:
                yield ray.get(under_way.popleft())
        yield from map(ray.get, under_way)

    return run


def by_data(make: Callable[[Any], Any], column: str) -> Callable[[Sequence[bytes]], np.ndarray]:
    """Returns the same pipeline as a job of Ray Data, whose result is a column."""

    def run(jpegs: Sequence[bytes]) -> np.ndarray:
        dataset = ray.data.from_items([{"bytes": jpeg} for jpeg in jpegs])
        return np.array([row[column] for row in make(dataset).iter_rows()])

    return run


OPEN = ExitStack()


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int, default=4)
    arguments = parser.parse_args()
    rounds, count = (1, 48) if arguments.quick else (arguments.rounds, 480)
    folder = Path(OPEN.enter_context(tempfile.TemporaryDirectory()))
    path = write_network(folder)
    fake = cluster()
    OPEN.callback(fake.shutdown)
    # for the ways written by hand
    ray.init(address=fake.address, logging_level="error", log_to_driver=False)
    OPEN.callback(ray.shutdown)
    found = OPEN.enter_context(connect(fake.address))
    jpegs = [photograph(640, 480)] * count

    def graph(name: str, **parts: str) -> str:
        file = folder / f"{name}.toml"
        far = {part: f", placement={part}" if part in parts else "" for part in ("pixels", "model")}
        file.write_text(GRAPH.format(**far))
        return str(file)

    def far(engine: PlacementEngine, *parts: str) -> Callable[[Sequence[bytes]], np.ndarray]:
        return by_graph(place_nodes(graph("_".join(parts), **dict.fromkeys(parts, "")), engine))

    ways = {
        "one process": by_graph(graph("local")),
        "mean, network in a process": far(ProcessEngine(), "model"),
        "mean, network in an actor": far(RayEngine(found), "model"),
        "both parts in actors": far(RayEngine(found), "pixels", "model"),
        "by hand, Ray's actors": by_hand(path),
    }
    data = {
        "Ray Data with FlowActor": by_data(
            lambda dataset: dataset.map_batches(
                FlowActor,
                fn_constructor_kwargs={"graph": graph("local"), "column": "bytes"},
                batch_size=64,
                concurrency=1,
                num_cpus=1,
            ),
            "output",
        ),
        "Ray Data's own idiom": by_data(
            lambda dataset: dataset.map(lambda row: {"image": decoded(row["bytes"])}).map_batches(
                Infer,
                fn_constructor_args=(str(path),),
                batch_size=64,
                concurrency=1,
                num_cpus=1,
            ),
            "scores",
        ),
    }
    ray.data.DataContext.get_current().enable_progress_bars = False
    expected = ways["one process"](jpegs[:BATCH])[0]
    with machine():
        seconds = 0.5 if arguments.quick else 5.0
        engines: dict[str, PlacementEngine] = {
            "processes": ProcessEngine(),
            "actors": RayEngine(found),
        }
        for title, engine in engines.items():
            rows = scaled(engine, folder, seconds)
            print_table(f"a unit of 40 ms a call: {title}", ("replicas", "items/s", "of all"), rows)
        print_group("a cut", ways, jpegs, expected, rounds)
        # Many images, because the start of a job should be a small part of its time.
        print_group("an offline job", data, jpegs * 4, expected, rounds)


def print_group(
    title: str,
    ways: dict[str, Callable[[Sequence[bytes]], np.ndarray]],
    jpegs: Sequence[bytes],
    expected: np.ndarray,
    rounds: int,
) -> None:
    """Runs the ways round by round, and prints medians, and ratios to the first way."""
    rates: dict[str, list[float]] = {name: [] for name in ways}
    costs: dict[str, list[float]] = {name: [] for name in ways}
    for round_ in range(rounds + 1):
        for name, way in ways.items():
            cpu, start = cpu_seconds(os.getpid()), time.perf_counter()
            scores = way(jpegs)
            seconds = time.perf_counter() - start
            assert len(scores) == len(jpegs)
            assert np.allclose(scores, expected, atol=0.5), name  # float32 sums of 50 176
            if round_:  # the first one warms up
                rates[name].append(len(jpegs) / seconds)
                costs[name].append((cpu_seconds(os.getpid()) - cpu) / len(jpegs) * 1e3)
    first = next(iter(ways))
    rows = []
    for name in ways:
        ratio = [
            statistics.median(map(float.__truediv__, values[name], values[first]))
            for values in (rates, costs)
        ]
        rows.append(
            (
                name,
                f"{statistics.median(rates[name]):.0f}",
                f"{ratio[0]:.2f}x",
                f"{statistics.median(costs[name]):.2f}",
                f"{ratio[1]:.2f}x",
            )
        )
    print_table(title, ("", "images/s", "", "CPU ms an image", ""), rows)


def cluster() -> FakeCluster:
    """Starts three simulated machines."""
    store = 300 << 20
    common = {"num_cpus": 2, "object_store_memory": store}
    fake = FakeCluster(
        initialize_head=True,
        head_node_args={**common, "node_ip_address": "127.0.0.2", "include_dashboard": False},
    )
    fake.add_node(**common, node_ip_address="127.0.0.3", resources={"model": 4, "stand_in": 8})
    fake.add_node(**common, node_ip_address="127.0.0.4", resources={"pixels": 4})
    return fake


if __name__ == "__main__":
    with OPEN:
        main()
