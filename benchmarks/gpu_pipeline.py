"""JPEG 640x480 to top-1 with ResNet-101 (P1): naive, by hand, and as a graph; one table.

python benchmarks/gpu_pipeline.py [--precisions fp32,tf32,fp16] [--batches 32,64,128] [--quick]

On a machine with an NVIDIA GPU, without a network: NumPy, OpenCV, torch and torchvision beside
modelflow. ``--device cpu`` runs what can run without a GPU, to show that the program does.

The graph is one file; preprocessing moves to the GPU by overriding the devices of its nodes.
"""

import argparse
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from by_hand import MEAN, ByHand, decoded, hand_rate
from image_pipeline import photograph
from measure import print_table
from resnet import torch_resnet

import modelflow

GRAPH = """digraph classify {
    input [type=input]
    decode [flowunit=image_decoder, queue_size=256]
    resize [image_width=224, image_height=224, queue_size=256]
    preprocess [flowunit=image_preprocess, mean="123.68,116.78,103.94", output_layout=chw]
    infer [flowunit=top1]
    output [type=output]
    input -> decode -> resize -> preprocess -> infer -> output
}"""
UNIT = """[base]
name = "top1"
device = "{device}"
entry = "{entry}"
type = "inference"
virtual_type = "torch"
[input.input1]
name = "image"
type = "float"
[output.output1]
name = "output0"
"""
DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16}


class Top1(torch.nn.Module):  # type: ignore[misc]
    """A network, and the number of its best class."""

    def __init__(self, network: Any) -> None:
        """Takes the network."""
        super().__init__()
        self.network = network

    def forward(self, image: Any) -> Any:
        """Returns (N,) class numbers."""
        return self.network(image).argmax(1)


def set_precision(precision: str) -> None:
    """Sets what float32 is calculated in; for what is written by hand."""
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.benchmark = True


def rate_of(function: Callable[[], object], items: int, seconds: float) -> float:
    """Returns items a second of a function that does ``items`` of them."""
    function()
    calls, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        function()
        calls += 1
    return calls * items / (time.perf_counter() - start)


def bare_rate(hand: ByHand, seconds: float) -> float:
    """Returns images a second of the forward pass alone, its input in place."""
    return rate_of(lambda: hand.run_input().cpu(), hand.batch, seconds)


def naive_rate(network: Any, jpegs: list[bytes], device: str, dtype: Any, seconds: float) -> float:
    """Returns images a second of 4 threads that each decode and run a batch of one: the best."""
    mean = np.float32(MEAN)

    def one(jpeg: bytes) -> Any:
        values = torch.from_numpy(decoded(jpeg).astype(np.float32) - mean).to(device, dtype)
        with torch.inference_mode():
            return network(values.permute(2, 0, 1)[None].contiguous()).cpu()

    with ThreadPoolExecutor(4) as pool:
        return rate_of(lambda: list(pool.map(one, jpegs)), len(jpegs), seconds)


def graph_rate(flow: modelflow.Flow, jpegs: list[bytes], count: int) -> float:
    """Returns images a second of one session."""
    stream = flow.create_stream_io()

    def send() -> None:
        for place in range(count):
            stream.send("input", jpegs[place % len(jpegs)])
        stream.close_input()

    sender = threading.Thread(target=send)
    start = time.perf_counter()
    sender.start()
    failed = [buffer for buffer in stream if buffer.has_error()]
    seconds = time.perf_counter() - start
    sender.join()
    assert not failed, failed[0].get_error_msg()
    return count / seconds


def flow_of(folder: Path, device: str, batch: int, precision: str, on_gpu: bool) -> modelflow.Flow:
    """Returns the graph with its devices and batches set, as ``--set`` does."""
    settings: dict[str, object] = {
        "infer.device": device,
        "infer.batch_size": batch,
        "infer.queue_size": 4 * batch,
        "infer.batch_timeout_ms": 50,
        "infer.allowed_batch_sizes": str(batch),
        "infer.precision": precision,
        "infer.channels_last": True,
        "infer.warmup": "none",
        "preprocess.device": device,
        "preprocess.batch_size": batch,
        "preprocess.queue_size": 4 * batch,
    }
    if device == "cuda":
        settings["infer.cuda_graph"] = True
    if on_gpu:
        for node in ("decode", "resize"):
            settings |= {f"{node}.device": "cuda", f"{node}.batch_size": batch}
            settings[f"{node}.queue_size"] = 4 * batch
    return modelflow.Flow(folder / "graph.toml", overrides=settings)


def write_project(folder: Path, network: Any, device: str) -> None:
    """Writes the graph, the unit and the model."""
    unit = folder / "units" / "top1"
    unit.mkdir(parents=True)
    example = torch.zeros(2, 3, 224, 224, device=device)
    with torch.inference_mode():
        torch.jit.save(torch.jit.trace(network, example), str(unit / "top1.pt"))
    (unit / "top1.toml").write_text(UNIT.format(device=device, entry="./top1.pt"))
    text = f"[driver]\ndir = ['units']\n[graph]\ngraphconf = '''{GRAPH}'''\n"
    (folder / "graph.toml").write_text(text)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--precisions", default="fp32,tf32,fp16")
    parser.add_argument("--batches", default="32,64,128")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--images", type=int, default=6400, help="of each measurement")
    parser.add_argument("--quick", action="store_true", help="only show that the program runs")
    given = parser.parse_args()
    cv2.setNumThreads(1)
    device, is_gpu = given.device, given.device == "cuda"
    batches = [2] if given.quick else [int(size) for size in given.batches.split(",")]
    precisions = ["fp32"] if given.quick or not is_gpu else given.precisions.split(",")
    rounds, count, seconds = (1, 4, 0.1) if given.quick else (given.rounds, given.images, 2.0)
    depth = 26 if given.quick else 101
    jpegs = [photograph(640, 480)] * 8
    rows: list[list[object]] = []
    for precision in precisions:
        set_precision(precision)
        dtype = DTYPES[precision]
        with tempfile.TemporaryDirectory() as name:
            network = Top1(torch_resnet(depth)).eval().to(device)
            write_project(Path(name), network, device)
            network = network.to(dtype).to(memory_format=torch.channels_last)
            naive = naive_rate(network, jpegs, device, dtype, seconds)
            rows.append([f"{precision}: naive, 4 threads, batch 1", naive, "", "", 1.0])
            for batch in batches:
                hand = ByHand(network, batch, device, dtype)
                flows = {"CPU": flow_of(Path(name), device, batch, precision, on_gpu=False)}
                if is_gpu:
                    flows["GPU"] = flow_of(Path(name), device, batch, precision, on_gpu=True)
                found = _measured(hand, flows, jpegs, (rounds, count, seconds))
                rows += _rows(f"{precision}, batch {batch}", found, naive)
    print_table(
        f"JPEG 640x480 -> ResNet-{depth} -> top-1, {_machine(device)}, medians of {rounds}",
        ["", "img/s", "of by hand", "of the bare forward", "of naive"],
        rows,
    )


def _measured(
    hand: ByHand,
    flows: dict[str, modelflow.Flow],
    jpegs: list[bytes],
    plan: tuple[int, int, float],
) -> dict[str, float]:
    rounds, count, seconds = plan
    found: dict[str, list[float]] = {}
    for flow in flows.values():
        flow.start()
        graph_rate(flow, jpegs, min(count, 4 * hand.batch))  # captures, and fills the pools
    for _ in range(rounds):
        found.setdefault("bare forward", []).append(bare_rate(hand, seconds))
        for where, flow in flows.items():
            rate = hand_rate(hand, jpegs, count, on_gpu=where == "GPU")
            found.setdefault(f"by hand, {where} preprocessing", []).append(rate)
            rate = graph_rate(flow, jpegs, count)
            found.setdefault(f"modelflow, {where} preprocessing", []).append(rate)
    for flow in flows.values():
        flow.stop()
    return {name: statistics.median(rates) for name, rates in found.items()}


def _rows(title: str, found: dict[str, float], naive: float) -> list[list[object]]:
    bare = found["bare forward"]
    rows: list[list[object]] = []
    for name, rate in found.items():
        by_hand = found.get(name.replace("modelflow", "by hand"), rate)
        is_ours = name.startswith("modelflow")
        share = rate / by_hand if is_ours else ""
        rows.append([f"{title}: {name}", rate, share, rate / bare, rate / naive])
    return rows


def _machine(device: str) -> str:
    cores = f"{len(os.sched_getaffinity(0))} processors"
    return f"{torch.cuda.get_device_name(0)}, {cores}" if device == "cuda" else cores


if __name__ == "__main__":
    main()
