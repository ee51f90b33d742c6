"""Streams and graphs of ``torch.cuda`` that record calls, for tests without a GPU."""

import contextlib
from types import SimpleNamespace

from flowunits.image_decoder import nvjpeg
from modelflow.device.torch_memory import load_torch

__all__ = ["FakeCuda"]

torch = load_torch()
_decode_jpegs = nvjpeg.decode_jpegs  # the function of the module itself


class FakeStream:
    def __init__(self, cuda, name):
        self.cuda, self.name = cuda, name

    def wait_stream(self, other):
        self.cuda.events.append(("wait", self.name, other.name))


class FakeCuda:
    """Stand-ins for parts of ``torch.cuda``.

    Attributes:
        events: The calls of streams and graphs, in order.
        worker: The stream of all workers.
        current: The stream that calls go to.
    """

    def __init__(self, monkeypatch):
        self.events, self._private = [], 0
        self.current = self.worker = FakeStream(self, "worker")
        self._patch = monkeypatch
        for name, value in {
            "Stream": self._make_stream,
            "stream": self._use_stream,
            "current_stream": lambda device=None: self.current,
            "CUDAGraph": lambda: SimpleNamespace(replay=lambda: self.events.append(("replay",))),
            "graph": self.capture,
            "graph_pool_handle": lambda: (0, 1),
        }.items():
            monkeypatch.setattr(torch.cuda, name, value)
        record = lambda tensor, stream: self.events.append(("record", stream.name))  # noqa: E731
        monkeypatch.setattr(torch.Tensor, "record_stream", record)

    def use_torchvision(self, decode_jpeg):
        """Lets ``image_decoder`` decode with that function in place of torchvision's."""
        modes = SimpleNamespace(GRAY="gray", RGB="rgb")
        io = SimpleNamespace(decode_jpeg=decode_jpeg, ImageReadMode=modes)
        self._patch.setattr(nvjpeg, "load_torchvision_io", lambda: io)
        self._patch.setattr(nvjpeg, "decode_jpegs", _decode_jpegs)
        nvjpeg._memory_stream.cache_clear()

    @contextlib.contextmanager
    def capture(self, graph, pool, stream, capture_error_mode):
        self.events.append(("capture", stream.name))
        yield

    def _make_stream(self, device, priority=0):
        assert priority < 0, "workers' streams are not private"
        self._private += 1
        return FakeStream(self, f"private {self._private}")

    @contextlib.contextmanager
    def _use_stream(self, stream):
        before, self.current = self.current, stream
        try:
            yield
        finally:
            self.current = before
