"""Tests of the engine ``torch`` on a GPU: precision, CUDA graphs, several devices, low memory."""

import gc
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import modelflow
from modelflow.device.torch_memory import load_torch
from modelflow.engine import LoadRequest, find_engine
from modelflow.engine.torch import settings
from modelflow.errors import DeviceUnavailableError
from tests.torch_as_cuda import has_gpu

torch = load_torch()

# The bound of ||found - right|| / ||right||: half a unit in the last place of the products, added
# up.
PRECISIONS = {"": 1e-3, "fp32": 1e-5, "tf32": 1e-3, "fp16": 2e-3, "bf16": 2e-2}


class Network(torch.nn.Module):
    """A small convolutional network: (N, 3, 16, 16) to (N, 10)."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.first = torch.nn.Conv2d(3, 32, 3, padding=1)
        self.second = torch.nn.Conv2d(32, 32, 3, padding=1)
        self.last = torch.nn.Linear(32 * 16 * 16, 10)

    def forward(self, image):
        values = torch.relu(self.first(image))
        return self.last(torch.relu(self.second(values)).flatten(1))


class Hungry(torch.nn.Module):
    """Allocates as many MiB as the largest number of the batch."""

    def forward(self, x):
        size = int(x.max().item())
        return x + torch.zeros([size, 1 << 20], dtype=torch.uint8, device=x.device).sum()


@pytest.fixture(scope="module")
def network():
    return Network().eval()


@pytest.fixture(scope="module")
def model_file(network, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "network.pt"
    torch.jit.save(torch.jit.trace(network, torch.zeros(2, 3, 16, 16)), str(path))
    return path


@pytest.fixture
def any_precision(monkeypatch):
    """Lets a test choose TF32 or not, although a process has a single setting."""
    monkeypatch.setattr(settings, "_is_tf32", {})
    backends = torch.backends.cuda.matmul, torch.backends.cudnn
    before = [backend.allow_tf32 for backend in backends]
    yield
    for backend, is_allowed in zip(backends, before, strict=True):
        backend.allow_tf32 = is_allowed


def images(count, seed=0):
    return list(np.random.default_rng(seed).standard_normal((count, 3, 16, 16), np.float32))


def right(network, items):
    """Returns the answers in float64, on the CPU."""
    with torch.inference_mode():
        exact = Network().double().eval()
        exact.load_state_dict(network.state_dict())
        return exact(torch.from_numpy(np.stack(items)).double()).numpy()


def distance(found, expected):
    return np.linalg.norm(np.asarray(found, np.float64) - expected) / np.linalg.norm(expected)


def answers(model, items):
    """Returns the answers of a model of one input and one output."""
    (found,) = model.infer_batch([items])
    return [buffer.data for buffer in found]


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_answers_are_as_exact_as_the_precision(
    model_file, network, precision, channels_last, any_precision
):
    items = images(20)
    with modelflow.Model(
        model_file, batch_size=8, device="cuda", precision=precision, channels_last=channels_last
    ) as model:
        found = answers(model, items)
    assert all(answer.dtype == np.float32 for answer in found)
    assert distance(found, right(network, items)) < PRECISIONS[precision]


@pytest.mark.parametrize("precision", ["fp32", "tf32"])
def test_what_a_trace_recorded_of_tf32_gives_way_to_the_precision(model_file, network, precision):
    traced = torch.jit.freeze(torch.jit.load(str(model_file)).eval())
    settings.set_traced_tf32(traced.graph, precision)
    convolutions = traced.graph.findAllNodes("aten::_convolution")
    recorded = [list(node.inputs())[-1].toIValue() for node in convolutions]
    assert recorded == [precision == "tf32"] * 2
    items = images(3)
    found = traced(torch.from_numpy(np.stack(items)))
    assert distance(found.numpy(), right(network, items)) < PRECISIONS["fp32"]


@pytest.mark.cuda
@pytest.mark.parametrize("precision", ["", "fp16"])
def test_cuda_graphs_of_every_allowed_size_give_the_same(model_file, network, precision):
    items = images(40)
    expected = right(network, items)
    with modelflow.Model(
        model_file,
        batch_size=8,
        allowed_batch_sizes="1,2,4,8",
        device="cuda",
        cuda_graph=True,
        precision=precision,
    ) as model:
        for count in (1, 2, 3, 4, 5, 7, 8, 8, 3, 1, 40):
            found = answers(model, items[:count])
            assert distance(found, expected[:count]) < PRECISIONS[precision]


@pytest.mark.cuda
def test_answers_of_a_cuda_graph_stay_when_the_next_batch_runs(model_file, cuda):
    engine: Any = find_engine("torch")
    options = engine.options(cuda_graph=True)
    model = engine.load(LoadRequest(model_file, cuda, options, batch_sizes=(4,)))
    (port,) = model.inputs
    given = [torch.from_numpy(np.stack(images(4, seed))).to("cuda") for seed in range(6)]
    found = [model.run({port.name: batch})["output"] for batch in given]
    for batch, result in zip(given, found, strict=True):
        torch.testing.assert_close(result, model.run({port.name: batch})["output"])
    assert not torch.equal(found[0], found[1])
    model.close()


@pytest.mark.cuda
def test_models_that_capture_at_once_do_not_disturb_each_other(model_file, network):
    items = images(8)
    expected = right(network, items)

    def use(_):
        with modelflow.Model(
            model_file, batch_size=8, device="cuda", cuda_graph=True, threads=2
        ) as model:
            return [distance(answers(model, items[:n]), expected[:n]) for n in (8, 1, 4, 2, 8)]

    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(use, range(4)):
            assert max(found) < 1e-3


@pytest.mark.parametrize("device", ["cuda:0;cpu:0", "auto", "cuda", "cuda:0"])
def test_every_way_to_name_the_devices(model_file, network, device):
    items = images(30)
    with modelflow.Model(model_file, batch_size=4, device=device, threads=2) as model:
        found = answers(model, items)
    assert distance(found, right(network, items)) < 1e-3


def test_a_gpu_that_is_not_there_is_refused_by_name(model_file, memory):
    absent = memory.count()
    with pytest.raises(DeviceUnavailableError, match=f"cuda:{absent} is not on this machine"):
        modelflow.Model(model_file, device=f"cuda:0,{absent};cpu:0").start()


def test_a_batch_for_which_memory_is_short_fails_alone(tmp_path):
    path = tmp_path / "hungry.pt"
    torch.jit.save(torch.jit.script(Hungry()), str(path))
    with modelflow.Model(path, batch_size=4, device="cuda", inputs=["x"]) as model:
        for _ in range(3):
            (found,) = model.infer_batch([[np.float32([size]) for size in (1, 2, 1 << 30, 3)]])
            assert [buffer.has_error() for buffer in found] == [False, False, True, False]
            assert re.search("out of memory|allocate memory", found[2].get_error_msg())
            (answer,) = model.infer([np.float32([5])])
            assert float(answer.data[0]) == 5


@pytest.mark.cuda
@pytest.mark.parametrize("cuda_graph", [False, True])
def test_reloads_give_memory_back(model_file, cuda_graph):
    with modelflow.Model(model_file, batch_size=8, device="cuda", cuda_graph=cuda_graph) as model:
        used = []
        for _ in range(12):
            answers(model, images(8))
            model.reload()
            answers(model, images(8))
            torch.cuda.synchronize()
            gc.collect()
            used.append((torch.cuda.memory_allocated(), torch.cuda.memory_reserved()))
    assert used[-1][0] <= used[2][0]
    assert used[-1][1] <= used[2][1] * 1.05
    assert torch.cuda.memory_allocated() <= used[2][0]


def test_onnx_runtime_reads_and_writes_on_the_gpu(network, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    if not has_gpu() or "CUDAExecutionProvider" not in runtime.get_available_providers():
        pytest.skip("needs a GPU and onnxruntime-gpu")
    pytest.importorskip("onnx")
    path, items = tmp_path / "network.onnx", images(20)
    axes = {"image": {0: "n"}, "scores": {0: "n"}}
    names = {"input_names": ["image"], "output_names": ["scores"], "dynamic_axes": axes}
    torch.onnx.export(network, (torch.zeros(2, 3, 16, 16),), str(path), dynamo=False, **names)
    with modelflow.Model(path, batch_size=8, device="cuda") as model:
        assert distance(answers(model, items), right(network, items)) < 1e-3
