"""CUDA graphs: a model's kernels, recorded once for each batch size and launched together."""

import logging
import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from modelflow.device.torch_memory import load_torch, make_private_stream

_log = logging.getLogger(__name__)

# PyTorch's own advice: a few runs on a side stream before the capture, for lazy initialisation.
_WARM_UP_RUNS = 3

# A process captures one graph at a time, which is PyTorch's own rule. Each capture begins with a
# wait for the whole device, and that wait breaks the capture of another thread.
_capturing = threading.Lock()

# Streams of closed models, by device, for the next models. They are reused because cuBLAS keeps
# memory for every stream that it has used, 32 MiB on Hopper.
_free_streams: defaultdict[Any, list[Any]] = defaultdict(list)


@dataclass(frozen=True)
class _Captured:
    graph: Any
    inputs: list[Any]
    outputs: list[Any]


class CudaGraphs:
    """The graphs of one model, captured at the first batch of each size and shape.

    Batches use the captured memory one after the other, on a private stream. The GPU keeps that
    order, and no thread waits for it. Safe from any thread.

    The stream must be private. PyTorch has 32 CUDA streams, and two workers may have the same one.
    A capture would then record the work of another thread on that stream instead of running it.
    """

    def __init__(self, call: Callable[[list[Any]], list[Any]], device: Any) -> None:
        """Takes the function to capture and its device."""
        self._call = call
        self._device = device
        # None if the shape could not be captured.
        self._captured: dict[tuple[Any, ...], _Captured | None] = {}
        self._lock = threading.Lock()
        free = _free_streams[device]
        self._stream: Any = free.pop() if free else make_private_stream(device)
        self._pool: Any = None

    def close(self) -> None:
        """Frees the graphs; another model may use the stream."""
        with self._lock:
            self._captured.clear()
            _free_streams[self._device].append(self._stream)

    def run(self, tensors: list[Any]) -> list[Any]:
        """Runs a batch. The results are copies, because the next batch overwrites the graph's."""
        torch = load_torch()
        key = tuple((tuple(tensor.shape), tensor.dtype) for tensor in tensors)
        results: list[Any] = []
        with self._lock:
            current = torch.cuda.current_stream(self._device)
            self._stream.wait_stream(current)
            with torch.cuda.stream(self._stream):
                if key not in self._captured:
                    self._captured[key] = self._capture(tensors)
                captured = self._captured[key]
                if captured is not None:
                    for target, tensor in zip(captured.inputs, tensors, strict=True):
                        target.copy_(tensor, non_blocking=True)
                        tensor.record_stream(self._stream)
                    captured.graph.replay()
                    results = [output.clone() for output in captured.outputs]
            current.wait_stream(self._stream)
        if captured is None:
            return self._call(tensors)
        for result in results:
            result.record_stream(current)
        return results

    def _capture(self, tensors: list[Any]) -> _Captured | None:
        torch = load_torch()
        inputs = [tensor.clone() for tensor in tensors]
        for _ in range(_WARM_UP_RUNS):
            self._call(inputs)
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        # Other workers use the device during the capture: record only the calls of this thread.
        mode = {"stream": self._stream, "capture_error_mode": "thread_local"}
        try:
            with _capturing, torch.cuda.graph(graph, pool=self._pool, **mode):
                outputs = self._call(inputs)
        except RuntimeError as error:
            shapes = ", ".join(str(tuple(tensor.shape)) for tensor in tensors)
            text = "cuda_graph: no graph for inputs of %s, they run without one: %s"
            _log.warning(text, shapes, error)
            return None
        return _Captured(graph, inputs, outputs)
