"""The pipeline of `gpu_pipeline.py` as one would write it by hand."""

import os
import queue
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import cv2
import numpy as np
import torch

__all__ = ["MEAN", "ByHand", "decoded", "hand_rate"]

MEAN = (123.68, 116.78, 103.94)


def decoded(jpeg: bytes) -> np.ndarray:
    """Returns (224, 224, 3) BGR."""
    image = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR)
    return cv2.resize(image, (224, 224))


class ByHand:
    """The model as one would run it without a framework: a CUDA graph of one batch size."""

    def __init__(self, network: Any, batch: int, device: str, dtype: Any) -> None:
        """Captures mean, network and top-1."""
        self.device, self.batch = device, batch
        self.input = torch.zeros(batch, 3, 224, 224, device=device, dtype=torch.uint8)
        mean = torch.tensor(MEAN, device=device).view(1, 3, 1, 1)

        def step() -> Any:
            values = (self.input.to(dtype) - mean.to(dtype)).contiguous(
                memory_format=torch.channels_last
            )
            return network(values)

        self._step, self._graph, self._output = step, None, None
        if device == "cuda":
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.inference_mode(), torch.cuda.stream(stream):
                for _ in range(3):
                    step()
                stream.synchronize()
                self._graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(self._graph):
                    self._output = step()
            torch.cuda.synchronize()

    def run(self, images: Any) -> Any:
        """Classifies uint8 (batch, 3, 224, 224); the answer is on the host."""
        self.input.copy_(images, non_blocking=True)
        return self.run_input().cpu()

    def run_input(self) -> Any:
        """Classifies what `input` holds."""
        if self._graph is None:
            with torch.inference_mode():
                return self._step()
        self._graph.replay()
        return self._output


class _Ready(queue.Queue[Any]):
    """Batches on their way to the model; None: a maker has ended."""


def hand_rate(hand: ByHand, jpegs: list[bytes], count: int, *, on_gpu: bool) -> float:
    """Returns images a second of three stages written by hand."""
    batches, ready = count // hand.batch, _Ready(4)
    makers = [threading.Thread(target=_make_on_cpu, args=(hand, jpegs, batches, ready))]
    if on_gpu:
        makers = [
            threading.Thread(target=_make_on_gpu, args=(hand, jpegs, range(n, batches, 2), ready))
            for n in range(2)
        ]
    start = time.perf_counter()
    for maker in makers:
        maker.start()
    done, ended = 0, 0
    while ended < len(makers):
        images = ready.get()
        if images is None:
            ended += 1
        else:
            hand.run(images)
            done += hand.batch
    for maker in makers:
        maker.join()
    return done / (time.perf_counter() - start)


def _make_on_cpu(hand: ByHand, jpegs: list[bytes], batches: int, ready: _Ready) -> None:
    ring = [torch.empty(hand.batch, 224, 224, 3, dtype=torch.uint8) for _ in range(8)]
    if hand.device == "cuda":
        ring = [slot.pin_memory() for slot in ring]

    def fill(target: Any, first: int, place: int) -> None:
        target[place] = decoded(jpegs[(first + place) % len(jpegs)])

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for number in range(batches):
            slot = ring[number % len(ring)]
            list(pool.map(partial(fill, slot.numpy(), number), range(hand.batch)))
            ready.put(slot.permute(0, 3, 1, 2))
    ready.put(None)


def _make_on_gpu(hand: ByHand, jpegs: list[bytes], numbers: range, ready: _Ready) -> None:
    import torchvision

    stream = torch.cuda.Stream()
    encoded = [torch.frombuffer(bytearray(jpeg), dtype=torch.uint8) for jpeg in jpegs]
    with torch.cuda.stream(stream), torch.inference_mode():
        for number in numbers:
            data = [encoded[(number + place) % len(jpegs)] for place in range(hand.batch)]
            images = torch.stack(torchvision.io.decode_jpeg(data, device="cuda"))
            small = torch.nn.functional.interpolate(images.half(), (224, 224), mode="bilinear")
            small = small.to(torch.uint8)
            stream.synchronize()
            ready.put(small)
    ready.put(None)
