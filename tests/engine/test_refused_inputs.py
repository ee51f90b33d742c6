"""Tests of inputs that only the engine rejects: an error of the client, with the engine's message.

Each engine is checked against the status of both protocols. Internal failures stay internal.
"""

from threading import Thread

import numpy as np
import pytest

import modelflow
from modelflow.errors import EngineError, FlowUnitError, ItemRefusedError
from modelflow.serve.requests.status import GRPC_STATUS, HTTP_STATUS, problem_of
from tests.engine.conftest import WEIGHTS, freeze, save_onnx

ZEROS = np.zeros(4, np.float32)


def zeros(*shape):
    return np.zeros(shape, np.float32)


def onnx_product(folder, _):
    nodes, ports = [("MatMul", ["x", "w"], ["y"])], ({"x": ["n", "k"]}, {"y": ["n", 3]})
    return save_onnx(folder / "net.onnx", nodes, *ports, {"w": WEIGHTS})


def onnx_sum(folder, _):
    nodes, ports = [("Add", ["x", "w"], ["y"])], ({"x": ["n", "k"]}, {"y": ["n", 4]})
    return save_onnx(folder / "net.onnx", nodes, *ports, {"w": ZEROS})


def onnx_reshaped(folder, _):
    nodes, ports = [("Reshape", ["x", "s"], ["y"])], ({"x": ["n", "k"]}, {"y": ["n", 2, 2]})
    return save_onnx(folder / "net.onnx", nodes, *ports, {"s": np.array([-1, 2, 2])})


def onnx_of_terabytes(folder, _):
    nodes, ports = [("Expand", ["x", "s"], ["y"])], ({"x": ["n", "k"]}, {"y": ["n", "m"]})
    return save_onnx(folder / "net.onnx", nodes, *ports, {"s": np.array([10**4, 10**4, 10**4, 4])})


def scripted(folder, request, body):
    torch = request.getfixturevalue("torch")
    torch.jit.save(torch.jit.script(body(torch).eval()), str(folder / "net.pt"))
    return folder / "net.pt"


def traced_product(_, request):
    return request.getfixturevalue("torchscript_model")


def scripted_check(folder, request):
    def body(torch):
        class Four(torch.nn.Module):
            def forward(self, x):
                if x.size(1) != 4:
                    raise ValueError("four numbers, please")
                return x

        return Four()

    return scripted(folder, request, body)


def scripted_of_terabytes(folder, request):
    def body(torch):
        class Huge(torch.nn.Module):
            def forward(self, x):
                return x.sum() * torch.ones([10000000, 10000000])

        return Huge()

    return scripted(folder, request, body)


def exported_product(folder, request):
    torch = request.getfixturevalue("torch")

    class Same(torch.nn.Module):
        def forward(self, x):
            return x * 2

    dim, path = torch.export.Dim, folder / "net.pt2"
    shapes = {"x": {0: dim("b", min=1, max=64), 1: dim("k", min=2, max=4)}}
    program = torch.export.export(Same(), (torch.zeros(2, 3),), dynamic_shapes=shapes)
    torch.export.save(program, str(path))
    return path


def frozen_product(folder, request):
    def build(v1):
        v1.matmul(v1.placeholder(v1.float32, [None, None], "x"), WEIGHTS, name="y")

    return freeze(request.getfixturevalue("tf"), folder / "net.pb", build)


def saved_model_with_a_table(folder, request):
    tf = request.getfixturevalue("tf")
    module = tf.Module()
    keys, values = tf.constant([1, 2]), tf.constant([3, 4])
    initial = tf.lookup.KeyValueTensorInitializer(keys, values)
    module.table = tf.lookup.StaticHashTable(initial, -1)

    def body(x):
        return {"y": x @ WEIGHTS, "found": module.table.lookup(tf.cast(x, tf.int32))}

    spec = tf.TensorSpec((None, None), tf.float32, name="x")
    signatures = {"serving_default": tf.function(body).get_concrete_function(spec)}
    tf.saved_model.save(module, str(folder / "net"), signatures=signatures)
    return folder / "net"


@pytest.mark.parametrize(
    ("make", "wrong", "text"),
    [
        (onnx_product, zeros(5), "MatMul dimension mismatch"),
        (onnx_sum, zeros(5), "4 by 5"),
        (onnx_reshaped, zeros(5), "cannot be reshaped"),
        (traced_product, zeros(5), "mat1 and mat2 shapes cannot be multiplied"),
        (scripted_check, zeros(5), "ValueError: four numbers, please"),
        (exported_product, zeros(5), r"x.size()[1] <= 4"),
        (frozen_product, zeros(5), "Matrix size-incompatible"),
        (saved_model_with_a_table, zeros(5), "InvalidArgumentError: Matrix size-incompatible"),
    ],
)
def test_a_shape_that_only_the_engine_refuses_is_the_clients_fault(
    make, wrong, text, tmp_path, request
):
    path = make(tmp_path, request)
    with modelflow.Model(path) as model:
        for _ in range(2):  # the first call looks for batch axes
            with pytest.raises(FlowUnitError) as caught:
                model.infer([wrong])
            assert isinstance(caught.value.__cause__, ItemRefusedError)
            problem = problem_of(caught.value)
            assert (HTTP_STATUS[problem.code], GRPC_STATUS[problem.code]) == (400, 3)
            assert text in str(problem)
            assert str(path.parent) not in str(problem)
            assert "Traceback" not in str(problem)
            model.infer([ZEROS])  # goes on


@pytest.mark.parametrize("make", [onnx_of_terabytes, scripted_of_terabytes])
def test_what_the_engine_has_no_memory_for_is_its_own_failure(make, tmp_path, request):
    with modelflow.Model(make(tmp_path, request)) as model:
        with pytest.raises(FlowUnitError) as caught:
            model.infer([ZEROS])
        assert type(caught.value.__cause__) is EngineError
        problem = problem_of(caught.value)
        assert (HTTP_STATUS[problem.code], GRPC_STATUS[problem.code]) == (500, 13)
        assert "memory" not in str(problem)


def test_a_scripted_module_with_methods_of_its_own_refuses_on_any_thread(torch, tmp_path):
    """Tests a case in which PyTorch ended the process, because its error named freed methods."""

    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm = torch.nn.Conv2d(3, 1, 3), torch.nn.BatchNorm2d(1)

        def inner(self, x):
            return self.norm(self.conv(x))

        def forward(self, x):
            return self.inner(x)

    path, images = tmp_path / "net.pt", torch.rand(2, 3, 5, 5)
    network = Network().eval()
    torch.jit.save(torch.jit.script(network), str(path))
    with modelflow.Model(path) as model:
        found = []

        def ask():
            for _ in range(3):
                with pytest.raises(FlowUnitError, match=r"expected input.* to have 3 channels"):
                    model.infer([zeros(2, 5, 5)])
            found.append(model.infer([images[0].numpy()])[0].data)

        threads = [Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        expected = network(images)[0].detach().numpy()
        assert len(found) == 2
        np.testing.assert_allclose(found, [expected] * 2, atol=1e-5)
