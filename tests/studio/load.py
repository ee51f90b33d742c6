"""A slow flow, and rows that are sent to the flow faster than its nodes process the rows."""

import contextlib
import itertools
from concurrent.futures import ThreadPoolExecutor

import modelflow

__all__ = ["load", "slow_flow"]

GRAPH = """digraph photos {
    photos [type=input]  labels [type=output]
    photos -> decode -> resize -> infer:images
    decode -> infer:whole
    infer -> labels
}"""


@contextlib.contextmanager
def slow_flow(wait):
    """Yields a flow whose last node is slow, and whose second node refuses some rows.

    Args:
        wait: Waits so many seconds, as `threading.Event.wait` does.
    """

    @modelflow.flowunit
    def decode(number):
        wait(1e-3)
        return number

    @modelflow.flowunit
    def resize(number):
        if number % 40 == 39:
            raise ValueError(f"{number}.jpg is no JPEG")
        wait(2e-3)
        return number

    @modelflow.flowunit(batched=True)
    def infer(images, whole):
        assert len(images) == len(whole)
        wait(60e-3)
        return images

    with modelflow.Flow(GRAPH, units=[decode, resize, infer]) as flow:
        yield flow


@contextlib.contextmanager
def load(flow):
    """Sends rows to a flow and reads the results, inside the block."""
    stream = flow.create_stream_io()
    with ThreadPoolExecutor() as pool:
        jobs = [pool.submit(_send, stream), pool.submit(_read, stream)]
        try:
            yield
        finally:
            stream.cancel()
    for job in jobs:
        job.result()


def _send(stream):
    with contextlib.suppress(modelflow.Cancelled):
        for number in itertools.count():
            stream.send("photos", number)


def _read(stream):
    with contextlib.suppress(modelflow.Cancelled):
        while True:
            with contextlib.suppress(modelflow.FlowUnitError):
                stream.recv("labels")
