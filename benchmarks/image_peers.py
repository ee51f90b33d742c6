"""Other pipelines that do the same as the graph of `image_pipeline.py`, where installed.

Each yields a stream of float32 images of 224x224x3, with as many threads as the machine has
processors. torch's DataLoader uses as many processes.
"""

import importlib.util
import os
import time
from collections.abc import Callable, Iterable
from functools import cache

import numpy as np

__all__ = ["PEERS", "installed"]

Function = Callable[[bytes], np.ndarray]
WORKERS = len(os.sched_getaffinity(0))
# Until so many images have arrived, threads and processes are still being started.
BEFORE = 2 * WORKERS


def spdl(function: Function, jpeg: bytes, count: int) -> Iterable[object]:
    """Yields images from the function in a pipe of SPDL."""
    from spdl.pipeline import PipelineBuilder

    builder = PipelineBuilder().add_source([jpeg] * count).pipe(function, concurrency=WORKERS)
    pipeline = builder.add_sink(8).build(num_threads=WORKERS)
    with pipeline.auto_stop():
        yield from pipeline


def tf_data(function: Function, jpeg: bytes, count: int) -> Iterable[object]:  # noqa: ARG001
    """Yields images from TensorFlow's own operations in a tf.data pipeline."""
    import tensorflow as tf

    def prepared(data: "tf.Tensor") -> "tf.Tensor":
        image = tf.image.resize(tf.io.decode_jpeg(data, channels=3), (224, 224))
        return image - (103.94, 116.78, 123.68)

    images = tf.data.Dataset.from_tensors(jpeg).repeat(count)
    yield from images.map(prepared, num_parallel_calls=WORKERS).prefetch(8)


class _Photographs:
    """A data set of one photograph, many times."""

    def __init__(self, function: Function, jpeg: bytes, count: int) -> None:
        """Takes the function, the photograph, and its number of repetitions."""
        self._function, self._jpeg, self._count = function, jpeg, count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, place: int) -> np.ndarray:
        return self._function(self._jpeg)


def torch_loader(function: Function, jpeg: bytes, count: int) -> Iterable[object]:
    """Yields images from the function in processes of torch's DataLoader, in batches of 16."""
    for images in _loader(function, jpeg, count):
        yield from images


@cache
def _loader(function: Function, jpeg: bytes, count: int) -> Iterable[Iterable[object]]:
    """Returns a loader whose processes persist, because a round must not measure their start."""
    from torch.utils.data import DataLoader

    return DataLoader(
        _Photographs(function, jpeg, count),
        16,
        num_workers=WORKERS,
        multiprocessing_context="forkserver",
        persistent_workers=True,
    )


PEERS: dict[str, tuple[str, Callable[[Function, bytes, int], Iterable[object]]]] = {
    "SPDL": ("spdl", spdl),
    "tf.data": ("tensorflow", tf_data),
    "torch DataLoader": ("torch", torch_loader),
}
"""Name -> the required module, and the generator of images."""


def installed() -> dict[str, Callable[[Function, bytes, int], float]]:
    """Returns the installed pipelines, each with a function that returns its images a second."""

    def rate_of(
        images_of: Callable[[Function, bytes, int], Iterable[object]],
    ) -> Callable[[Function, bytes, int], float]:
        def rate(function: Function, jpeg: bytes, count: int) -> float:
            images = iter(images_of(function, jpeg, count + BEFORE))
            for _ in range(BEFORE):
                next(images)
            start = time.perf_counter()
            received = sum(1 for _ in images)
            assert received == count
            return count / (time.perf_counter() - start)

        return rate

    return {
        name: rate_of(images_of)
        for name, (module, images_of) in PEERS.items()
        if importlib.util.find_spec(module) is not None
    }
