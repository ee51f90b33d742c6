"""CUDA graphs: a model's kernels recorded once a batch size, and launched together."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from modelflow.device.torch_memory import load_torch

__all__ = ["CudaGraphs"]

# PyTorch's own advice: a few runs on a side stream before the capture, for lazy initialisation.
_WARM_UP_RUNS = 3

# A process captures one graph at a time (PyTorch's own rule): torch.cuda.graph begins by waiting
# for the whole device, which ends the capture of another thread with an error.
_capturing = threading.Lock()


@dataclass(frozen=True)
class _Captured:
    graph: Any
    inputs: list[Any]
    outputs: list[Any]


class CudaGraphs:
    """The graphs of one model, captured at the first batch of each size and shape.

    The captured memory is used by one batch after another, on a stream of its own; that order is
    the GPU's, no thread waits for it. Safe from any thread.
    """

    def __init__(self, call: Callable[[list[Any]], list[Any]], device: Any) -> None:
        """Takes what is to be captured, and where."""
        self._call = call
        self._device = device
        self._captured: dict[tuple[Any, ...], _Captured] = {}
        self._lock = threading.Lock()
        self._stream: Any = None
        self._pool: Any = None

    def run(self, tensors: list[Any]) -> list[Any]:
        """Runs a batch; the results are copies, since the next batch overwrites the graph's own."""
        torch = load_torch()
        key = tuple((tuple(tensor.shape), tensor.dtype) for tensor in tensors)
        with self._lock:
            if self._stream is None:
                self._stream = torch.cuda.Stream(self._device)
            current = torch.cuda.current_stream(self._device)
            self._stream.wait_stream(current)
            with torch.cuda.stream(self._stream):
                captured = self._captured.get(key)
                if captured is None:
                    captured = self._captured[key] = self._capture(tensors)
                for target, tensor in zip(captured.inputs, tensors, strict=True):
                    target.copy_(tensor, non_blocking=True)
                    tensor.record_stream(self._stream)
                captured.graph.replay()
                results = [output.clone() for output in captured.outputs]
            current.wait_stream(self._stream)
        for result in results:
            result.record_stream(current)
        return results

    def _capture(self, tensors: list[Any]) -> _Captured:
        torch = load_torch()
        inputs = [tensor.clone() for tensor in tensors]
        for _ in range(_WARM_UP_RUNS):
            self._call(inputs)
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        # Other workers go on using the device meanwhile: only this thread's calls are recorded.
        with (
            _capturing,
            torch.cuda.graph(
                graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"
            ),
        ):
            outputs = self._call(inputs)
        return _Captured(graph, inputs, outputs)
