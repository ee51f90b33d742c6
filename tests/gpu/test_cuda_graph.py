"""Tests of the calls from `CudaGraphs` to CUDA, without a GPU."""

import contextlib
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from modelflow.device.torch_memory import load_torch
from modelflow.engine import LoadRequest, find_engine
from modelflow.engine.torch import cuda_graph
from modelflow.engine.torch.cuda_graph import CudaGraphs

torch = load_torch()
DEVICE = torch.device("cpu")


@pytest.fixture(autouse=True)
def no_free_streams(monkeypatch):
    monkeypatch.setattr(cuda_graph, "_free_streams", cuda_graph.defaultdict(list))


def double(tensors):
    return [tensor * 2 for tensor in tensors]


def test_a_batch_is_copied_in_replayed_and_copied_out_between_waits(fake_cuda):
    graphs = CudaGraphs(double, DEVICE)
    (found,) = graphs.run([torch.ones(2)])
    assert found.tolist() == [2, 2]
    assert fake_cuda.events == [
        ("wait", "private 1", "worker"),
        ("capture", "private 1"),
        ("record", "private 1"),
        ("replay",),
        ("wait", "worker", "private 1"),
        ("record", "worker"),
    ]


def test_each_shape_is_captured_once(fake_cuda):
    graphs = CudaGraphs(double, DEVICE)
    for size in (2, 3, 2, 3):
        graphs.run([torch.ones(size)])
    assert fake_cuda.events.count(("capture", "private 1")) == 2
    assert fake_cuda.events.count(("replay",)) == 4


def test_models_have_streams_of_their_own_and_leave_them_to_the_next(fake_cuda):
    first, second = CudaGraphs(double, DEVICE), CudaGraphs(double, DEVICE)
    first.close()
    for graphs in (second, CudaGraphs(double, DEVICE), CudaGraphs(double, DEVICE)):
        graphs.run([torch.ones(1)])
    captures = [event[1] for event in fake_cuda.events if event[0] == "capture"]
    assert captures == ["private 2", "private 1", "private 3"]


def test_a_shape_that_cannot_be_captured_runs_without_a_graph_and_is_told_once(
    fake_cuda, monkeypatch, caplog
):
    @contextlib.contextmanager
    def refuse(graph, **_):
        fake_cuda.events.append(("capture", "refused"))
        yield
        message = "operation not permitted when stream is capturing"
        raise RuntimeError(message)

    monkeypatch.setattr(torch.cuda, "graph", refuse)
    graphs = CudaGraphs(double, DEVICE)
    for value in (1, 5):
        (found,) = graphs.run([torch.full((2,), value)])
        assert found.tolist() == [2 * value, 2 * value]
    assert fake_cuda.events.count(("capture", "refused")) == 1
    assert ("replay",) not in fake_cuda.events
    (record,) = caplog.records
    assert "no graph for inputs of (2,), they run without one: operation not" in record.message


class Double(torch.nn.Module):
    def forward(self, x):
        return x * 2


def test_a_model_of_a_fixed_batch_is_captured_for_that(fake_cuda, cuda, tmp_path):
    path = tmp_path / "double.pt2"
    torch.export.save(torch.export.export(Double(), (torch.zeros(3, 2),)), str(path))
    engine: Any = find_engine("torch")
    request = LoadRequest(path, cuda, engine.options(cuda_graph=True), batch_sizes=(1, 2, 4))
    model = engine.load(request)
    (found,) = model.run({model.inputs[0].name: torch.ones(3, 2)}).values()
    assert found.tolist() == [[2, 2]] * 3
    assert ("capture", "private 1") in fake_cuda.events
    model.close()


def test_an_error_of_the_model_is_raised(fake_cuda):
    def fail(_):
        message = "shapes cannot be multiplied"
        raise RuntimeError(message)

    graphs = CudaGraphs(fail, DEVICE)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="cannot be multiplied"):
            graphs.run([torch.ones(2)])


def test_one_capture_runs_at_a_time(fake_cuda, monkeypatch):
    inside, go_on = threading.Event(), threading.Event()
    captures = []

    @contextlib.contextmanager
    def wait(graph, **_):
        captures.append("begins")
        inside.set()
        go_on.wait()
        yield
        captures.append("ends")

    monkeypatch.setattr(torch.cuda, "graph", wait)
    seen = SimpleNamespace(is_locked=threading.Event())

    class Lock:
        """A lock that sets an event when a thread has to wait."""

        def __init__(self):
            self._lock = threading.Lock()

        def __enter__(self):
            if not self._lock.acquire(blocking=False):
                seen.is_locked.set()
                self._lock.acquire()

        def __exit__(self, *_):
            self._lock.release()

    monkeypatch.setattr(cuda_graph, "_capturing", Lock())
    threads = [
        threading.Thread(target=CudaGraphs(double, DEVICE).run, args=([torch.ones(1)],))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    inside.wait()
    seen.is_locked.wait()
    go_on.set()
    for thread in threads:
        thread.join()
    assert captures == ["begins", "ends"] * 2
