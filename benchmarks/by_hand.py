"""The pipeline of `gpu_pipeline.py`, written by hand without a framework."""

import itertools
import os
import queue
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import cv2
import numpy as np
import torch
from measure import steady_rate

__all__ = ["MEAN", "ByHand", "decoded", "hand_rate"]

MEAN = (123.68, 116.78, 103.94)


def decoded(jpeg: bytes) -> np.ndarray:
    """Returns the decoded image, as (224, 224, 3) BGR."""
    image = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR)
    return cv2.resize(image, (224, 224))


class ByHand:
    """A model without a framework: a CUDA graph of one batch size."""

    def __init__(self, network: Any, batch: int, device: str, dtype: Any) -> None:
        """Captures the mean, the network and top-1."""
        self.device, self.batch = device, batch
        # NHWC in memory, as decoders on the CPU give it: a copy from pinned memory is one transfer.
        pixels = torch.zeros(batch, 224, 224, 3, device=device, dtype=torch.uint8)
        self.input = pixels.permute(0, 3, 1, 2)
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
        """Classifies uint8 (batch, 3, 224, 224), and copies the answer to the host."""
        self.input.copy_(images, non_blocking=True)
        return self.run_input().cpu()

    def run_input(self) -> Any:
        """Classifies the images in `input`."""
        if self._graph is None:
            with torch.inference_mode():
                return self._step()
        self._graph.replay()
        return self._output


class _Ready(queue.Queue[Any]):
    """A queue of batches for the model; None marks the end of a maker thread."""


def hand_rate(hand: ByHand, jpegs: list[bytes], seconds: float, *, on_gpu: bool) -> float:
    """Returns images a second of three stages written by hand, which run for ``seconds``."""
    ready, until = _Ready(4), time.perf_counter() + seconds
    make, count = (_make_on_gpu, 2) if on_gpu else (_make_on_cpu, 1)
    makers = [
        threading.Thread(target=_feed, args=(make(hand, jpegs, number, until), ready))
        for number in range(count)
    ]
    for maker in makers:
        maker.start()
    moments, ended = [time.perf_counter()], 0
    try:
        while ended < len(makers):
            images = ready.get()
            if images is None:
                ended += 1
            elif isinstance(images, Exception):
                raise images
            else:
                hand.run(images)
                moments.append(time.perf_counter())
    finally:
        # Each maker ends by itself once the queue has room for its last batches.
        while ended < len(makers):
            ended += ready.get() is None
        for maker in makers:
            maker.join()
    return steady_rate(moments, hand.batch)


def _feed(batches: Iterable[Any], ready: _Ready) -> None:
    try:
        for images in batches:
            ready.put(images)
    except Exception as error:  # noqa: BLE001 - raised by the thread that takes the batches
        ready.put(error)
    ready.put(None)


def _make_on_cpu(hand: ByHand, jpegs: list[bytes], first: int, until: float) -> Iterator[Any]:
    ring = [torch.empty(hand.batch, 224, 224, 3, dtype=torch.uint8) for _ in range(8)]
    if hand.device == "cuda":
        ring = [slot.pin_memory() for slot in ring]

    def fill(target: Any, first: int, place: int) -> None:
        target[place] = decoded(jpegs[(first + place) % len(jpegs)])

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for number in itertools.count(first):
            slot = ring[number % len(ring)]
            list(pool.map(partial(fill, slot.numpy(), number), range(hand.batch)))
            yield slot.permute(0, 3, 1, 2)
            if time.perf_counter() >= until:
                return


def _make_on_gpu(hand: ByHand, jpegs: list[bytes], first: int, until: float) -> Iterator[Any]:
    import torchvision

    stream = torch.cuda.Stream()
    encoded = [torch.frombuffer(bytearray(jpeg), dtype=torch.uint8) for jpeg in jpegs]
    with torch.cuda.stream(stream), torch.inference_mode():
        for number in itertools.count(first):
            data = [encoded[(number + place) % len(jpegs)] for place in range(hand.batch)]
            images = torch.stack(torchvision.io.decode_jpeg(data, device="cuda"))
            small = torch.nn.functional.interpolate(images.half(), (224, 224), mode="bilinear")
            small = small.to(torch.uint8)
            stream.synchronize()
            yield small
            if time.perf_counter() >= until:
                return
