"""JPEG 640x480 to top-1 with ResNet-101 (P1): naive, by hand, and as a graph.

python benchmarks/gpu_pipeline.py [--precisions tf32,fp16] [--batches 64,128] [--quick]

Prints two tables: rates, and where the time of the graph's workers goes. The machine needs an
NVIDIA GPU, but no network: see ``gpu_machine.md``. ``--device cpu`` only shows that the program
runs: it leaves out the parts that need a GPU.

The graph is one file; preprocessing moves to the GPU by overriding the devices of its nodes.
"""

import argparse
import contextlib
import dataclasses
import itertools
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from by_hand import MEAN, ByHand, decoded, hand_rate
from jpegs import make_jpeg
from machine import GpuSamples
from measure import Table, steady_rate, take_turns
from resnet import torch_resnet

import modelflow

__all__ = ["GRAPH", "graph_rate", "settings_of", "write_project"]

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
    """Sets the precision in which PyTorch multiplies float32, for the programs written by hand."""
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.benchmark = True


def rate_of(function: Callable[[], object], items: int, seconds: float) -> float:
    """Returns items a second of a function that handles ``items`` of them in a call."""
    function()
    calls, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        function()
        calls += 1
    return calls * items / (time.perf_counter() - start)


def bare_rate(hand: ByHand, seconds: float) -> float:
    """Returns images a second of the forward pass alone, with its input in place."""
    return rate_of(lambda: hand.run_input().cpu(), hand.batch, seconds)


def naive_rate(network: Any, jpegs: list[bytes], device: str, dtype: Any, seconds: float) -> float:
    """Returns images a second of 4 threads (the best number), each with batches of 1."""
    mean = np.float32(MEAN)

    def one(jpeg: bytes) -> Any:
        values = torch.from_numpy(decoded(jpeg).astype(np.float32) - mean).to(device, dtype)
        with torch.inference_mode():
            return network(values.permute(2, 0, 1)[None].contiguous()).cpu()

    with ThreadPoolExecutor(4) as pool:
        return rate_of(lambda: list(pool.map(one, jpegs)), len(jpegs), seconds)


def graph_rate(flow: modelflow.Flow, jpegs: list[bytes], seconds: float) -> float:
    """Returns images a second of a session that is cancelled after the time."""
    with flow.create_stream_io() as stream:

        def send() -> None:
            with contextlib.suppress(modelflow.Cancelled):
                for jpeg in itertools.cycle(jpegs):
                    stream.send("input", jpeg)

        sender = threading.Thread(target=send)
        until = time.perf_counter() + seconds
        sender.start()
        moments: list[float] = []
        while len(moments) < 2 or moments[-1] < until:
            buffer = stream.recv("output", errors="return")
            if buffer.has_error():
                raise RuntimeError(buffer.get_error_msg())
            moments.append(time.perf_counter())
    sender.join()
    return steady_rate(moments)


def settings_of(
    device: str, batch: int, precision: str, *, on_gpu: bool, timeout_ms: float, sizes: str
) -> dict[str, object]:
    """Returns overrides of the graph's nodes, as ``--set`` takes them.

    Args:
        device: The device of the model and of ``preprocess``.
        batch: The largest batch.
        precision: The precision of the model: ``fp32``, ``tf32`` or ``fp16``.
        on_gpu: Whether ``decode`` and ``resize`` run on ``device``, too.
        timeout_ms: The batch time-out of the model in milliseconds.
        sizes: The allowed batch sizes, as in ``"8,64"``.
    """
    more = {"batch_size": batch, "queue_size": 4 * batch}
    infer = {
        **more,
        "device": device,
        "batch_timeout_ms": timeout_ms,
        "allowed_batch_sizes": sizes,
        "precision": precision,
        "channels_last": True,
        "warmup": "recorded",  # captures every allowed size before the first image
        "cuda_graph": device == "cuda",
    }
    nodes: dict[str, dict[str, object]] = {"infer": infer, "preprocess": {**more, "device": device}}
    if on_gpu:
        nodes |= {node: {**more, "device": device} for node in ("decode", "resize")}
    return {f"{node}.{name}": value for node, to in nodes.items() for name, value in to.items()}


def write_project(folder: Path, network: Any, device: str) -> None:
    """Writes the graph, the unit, the model and a warm-up request."""
    unit = folder / "units" / "top1"
    unit.mkdir(parents=True)
    example = torch.zeros(2, 3, 224, 224, device=device)
    with torch.inference_mode():
        torch.jit.save(torch.jit.trace(network, example), str(unit / "top1.pt"))
    np.savez(unit / "warmup.npz", image=np.zeros((1, 3, 224, 224), np.float32))
    (unit / "top1.toml").write_text(UNIT.format(device=device, entry="./top1.pt"))
    text = f"[driver]\ndir = ['units']\n[graph]\ngraphconf = '''{GRAPH}'''\n"
    (folder / "graph.toml").write_text(text)


RATIOS = ["of by hand", "of the bare forward", "of naive"]
RATES = ["", "img/s", *RATIOS, "least", "most", "rounds", *GpuSamples.columns]
SHARES = ["busy", "starved", "blocked", "order", "moving"]
TIMES = ["", "threads", "mean batch", *(f"{name} %" for name in SHARES), "us of CPU an image"]


def add_times(
    table: Table, title: str, before: Mapping[str, Any], after: Mapping[str, Any]
) -> None:
    """Adds a row for each node: the shares of its workers' time between two `Flow.stats`."""
    for name, node in after.items():
        spent = {
            key: getattr(node, key) - getattr(before[name], key)
            for key in ("seconds", "buffers", "batches", "on_core", *SHARES)
        }
        shares = [100 * spent[key] / (spent["seconds"] or 1.0) for key in SHARES]
        buffers = max(1, spent["buffers"])
        batch = buffers / max(1, spent["batches"])
        on_core = 1e6 * spent["on_core"] / buffers
        table.add(f"{title}: {name}", node.threads, batch, *shares, on_core)


def main() -> None:
    """Measures all cases, and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--precisions", default="tf32,fp16", help="of fp32, tf32, fp16")
    parser.add_argument("--batches", default="64,128")
    parser.add_argument("--rounds", type=int, default=3, help="at the most")
    parser.add_argument("--seconds", type=float, default=160.0, help="of everything")
    parser.add_argument("--quick", action="store_true", help="only show that the program runs")
    parser.add_argument("--json", action="store_true", help="tables as lines of JSON, as they come")
    given = parser.parse_args()
    cv2.setNumThreads(1)
    if given.device == "cpu" or given.quick:
        given.precisions, given.batches = "fp32", "2"
    if given.quick:
        given.rounds, given.seconds = 1, 6.0
    sys.exit(measure(given))


def measure(given: argparse.Namespace) -> int:
    """Measures every case in its share of the time; returns 1 if a case failed or got no time."""
    device, began = given.device, time.perf_counter()
    cases = [
        Case(precision, int(batch), on_gpu)
        for precision in given.precisions.split(",")
        for batch in given.batches.split(",")
        for on_gpu in ((False, True) if device == "cuda" else (False,))
    ]
    depth = 101 if device == "cuda" else 26
    title = f"JPEG 640x480 -> ResNet-{depth} -> top-1, {_machine(device)}, medians"
    rates = Table(title, RATES, as_json=given.json)
    title = "Where the time of the graph's worker threads went in the last round"
    times = Table(title, TIMES, as_json=given.json)
    # Loading and capturing take half of the time; a round measures three programs.
    slot = given.seconds / 2 / len(cases) / given.rounds / 3
    with tempfile.TemporaryDirectory() as name, GpuSamples() as samples:
        pipelines = Pipelines(Path(name), device, depth, slot, samples)
        for number, case in enumerate(cases, 1):
            until = began + given.seconds * number / len(cases)
            with rates.attempt(case.title):
                is_over = time.perf_counter() > began + given.seconds
                if is_over and number > 1 and not given.quick:
                    message = "the time was over"
                    raise TimeoutError(message)
                stats = pipelines.measure(rates, case, given.rounds, until)
                add_times(times, case.title, *stats)
    rates.close()
    times.close()
    return int(rates.has_failed)


@dataclasses.dataclass(frozen=True)
class Case:
    """A combination to measure: precision and batch size of the model, and the device of images."""

    precision: str
    batch: int
    on_gpu: bool

    @property
    def title(self) -> str:
        """The name of the case in the tables."""
        where = "GPU" if self.on_gpu else "CPU"
        return f"{self.precision}, batch {self.batch}, {where} preprocessing"


class Pipelines:
    """The naive service, the pipeline by hand and the graph, which all cases share."""

    def __init__(
        self, folder: Path, device: str, depth: int, slot: float, samples: GpuSamples
    ) -> None:
        """Writes the graph and the model.

        Args:
            folder: Receives both.
            device: The device of the model.
            depth: The layers of the ResNet.
            slot: The seconds of one measurement.
            samples: Samples of the GPU's use.
        """
        self._network = Top1(torch_resnet(depth)).eval().to(device)
        write_project(folder, self._network, device)
        self._graph, self._device, self._slot = folder / "graph.toml", device, slot
        self._jpegs = [make_jpeg(640, 480, seed) for seed in range(8)]
        self._samples = samples
        self._naive: dict[str, float] = {}

    def measure(
        self, table: Table, case: Case, rounds: int, until: float
    ) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Measures a case in at least one round, and begins no further round after ``until``.

        Returns:
            The flow's statistics before and after the graph's last measurement.
        """
        device, jpegs, slot, precision = self._device, self._jpegs, self._slot, case.precision
        set_precision(precision)
        dtype = DTYPES[precision]
        network = self._network.to(dtype).to(memory_format=torch.channels_last)
        if precision not in self._naive:
            self._naive[precision] = naive_rate(network, jpegs, device, dtype, slot)
            table.add(f"{precision}: naive, 4 threads, batch 1", self._naive[precision])
        settings = settings_of(
            device,
            case.batch,
            precision,
            on_gpu=case.on_gpu,
            timeout_ms=50,
            sizes=str(case.batch),
        )
        hand = ByHand(network, case.batch, device, dtype)
        with modelflow.Flow(self._graph, overrides=settings) as flow:
            graph_rate(flow, jpegs, slot / 2)  # fills the pools
            hand_rate(hand, jpegs, slot / 2, on_gpu=case.on_gpu)

            def observe(program: Callable[[], float]) -> tuple[float, list[Any], Any, Any]:
                start, before = time.perf_counter(), flow.stats()
                rate = program()
                use = self._samples.between(start, time.perf_counter())
                return rate, use, before, flow.stats()

            programs = {
                "bare forward": partial(bare_rate, hand, slot),
                "by hand": partial(hand_rate, hand, jpegs, slot, on_gpu=case.on_gpu),
                "modelflow": partial(graph_rate, flow, jpegs, slot),
            }
            observed = {name: partial(observe, program) for name, program in programs.items()}
            found = take_turns(observed, rounds, until)
        rates = {name: [rate for rate, *_ in seen] for name, seen in found.items()}
        hand_median, bare = (statistics.median(rates[n]) for n in ("by hand", "bare forward"))
        for name, values in rates.items():
            rate = statistics.median(values)
            ratios = [rate / hand_median, rate / bare, rate / self._naive[precision]]
            spread = [min(values), max(values), len(values)]
            table.add(f"{case.title}: {name}", rate, *ratios, *spread, *found[name][-1][1])
        _, _, before, after = found["modelflow"][-1]
        return before, after


def _machine(device: str) -> str:
    cores = f"{len(os.sched_getaffinity(0))} processors"
    return f"{torch.cuda.get_device_name(0)}, {cores}" if device == "cuda" else cores


if __name__ == "__main__":
    main()
