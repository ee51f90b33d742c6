"""Other pipelines that do what the graph of `image_pipeline.py` does, where they are installed.

Each gives float32 images of 224x224x3, a stream of them, on as many threads as there are
processors; torch's DataLoader on as many processes. Each is a generator, which ends with a rate.
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
# Until so many images have come, threads and processes are still being started.
BEFORE = 2 * WORKERS


def spdl(function: Function, jpeg: bytes, count: int) -> Iterable[object]:
    """The function in a pipe of SPDL."""
    from spdl.pipeline import PipelineBuilder

    builder = PipelineBuilder().add_source([jpeg] * count).pipe(function, concurrency=WORKERS)
    pipeline = builder.add_sink(8).build(num_threads=WORKERS)
    with pipeline.auto_stop():
        yield from pipeline


def tf_data(function: Function, jpeg: bytes, count: int) -> Iterable[object]:  # noqa: ARG001
    """TensorFlow's own operations in a tf.data pipeline."""
    import tensorflow as tf

    def prepared(data: "tf.Tensor") -> "tf.Tensor":
        image = tf.image.resize(tf.io.decode_jpeg(data, channels=3), (224, 224))
        return image - (103.94, 116.78, 123.68)

    images = tf.data.Dataset.from_tensors(jpeg).repeat(count)
    yield from images.map(prepared, num_parallel_calls=WORKERS).prefetch(8)


class _Photographs:
    """A data set of one photograph, many times."""

    def __init__(self, function: Function, jpeg: bytes, count: int) -> None:
        """Takes what to do with it, and how often."""
        self._function, self._jpeg, self._count = function, jpeg, count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, place: int) -> np.ndarray:
        return self._function(self._jpeg)


def torch_loader(function: Function, jpeg: bytes, count: int) -> Iterable[object]:
    """The function in the processes of torch's DataLoader; images come in batches of 16."""
    for images in _loader(function, jpeg, count):
        yield from images


@cache
def _loader(function: Function, jpeg: bytes, count: int) -> Iterable[Iterable[object]]:
    """A loader whose processes stay, so that their start is not measured with every round."""
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
"""Name -> the module that it needs, and the images that it gives."""


def installed() -> dict[str, Callable[[Function, bytes, int], float]]:
    """Returns those that can be imported, each with what returns its images a second."""

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
