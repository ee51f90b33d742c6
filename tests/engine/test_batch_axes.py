"""Tests of the outputs with a value for each item, found in model files or by two calls.

Every model is called with two items alone and in one batch. The expected results come from the
engine, called by hand.
"""

import numpy as np
import pytest

from modelflow import Model
from modelflow.engine import Engine, LoadedModel, TensorSpec, lookup
from modelflow.errors import FlowFailed
from tests.engine.conftest import freeze, save_onnx

# Two hits in the first item, none in the second: in a batch of two, two rows of hits.
HIT = np.array([1, 0, 0, 1], np.float32)
MISS = np.zeros(4, np.float32)


def save_nonzero(folder, rows, columns="n"):
    onnx = pytest.importorskip("onnx")
    helper, kinds = onnx.helper, onnx.TensorProto
    nodes = [
        helper.make_node("NonZero", ["x"], ["found"]),
        helper.make_node("Transpose", ["found"], ["y"], perm=[1, 0]),
        helper.make_node("ReduceSum", ["x"], ["total"], keepdims=0),
        helper.make_node("Relu", ["x"], ["same"]),
    ]
    graph = helper.make_graph(
        nodes,
        "detector",
        [helper.make_tensor_value_info("x", kinds.FLOAT, [columns, 4])],
        [
            helper.make_tensor_value_info("y", kinds.INT64, [rows, 2]),
            helper.make_tensor_value_info("total", kinds.FLOAT, []),
            helper.make_tensor_value_info("same", kinds.FLOAT, [columns, 4]),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = folder / "detector.onnx"
    onnx.save(model, path)
    return path


@pytest.fixture
def network():
    torch = pytest.importorskip("torch")

    class Detector(torch.nn.Module):
        def forward(self, x):
            return x.nonzero(), x.sum(), x.relu()

    return torch, Detector()


@pytest.fixture
def torch_detector(network, tmp_path):
    torch, detector = network
    path = tmp_path / "detector.pt"
    torch.jit.save(torch.jit.script(detector), str(path))
    return path


@pytest.fixture
def exported_detector(network, tmp_path):
    torch, detector = network
    sizes = ({0: torch.export.Dim("n", max=8)},)
    program = torch.export.export(detector, (torch.ones(3, 4),), dynamic_shapes=sizes)
    path = tmp_path / "detector.pt2"
    torch.export.save(program, str(path))
    return path


@pytest.fixture
def tensorflow_detector(tf, tmp_path):
    def build(v1):
        x = v1.placeholder(v1.float32, [None, 4], "x")
        v1.where(v1.not_equal(x, 0), name="y")
        v1.reduce_sum(x, name="total")
        v1.nn.relu(x, name="same")

    return freeze(tf, tmp_path / "detector.pb", build)


class PlugInDetector(LoadedModel):
    inputs = (TensorSpec("x", np.dtype(np.float32), (None, 4)),)
    outputs = (
        TensorSpec("y", np.dtype(np.int64), (None, 2)),
        TensorSpec("total", np.dtype(np.float32), ()),
        TensorSpec("same", np.dtype(np.float32), (None, 4)),
    )

    def run(self, inputs):
        x = inputs["x"]
        return {"y": np.argwhere(x), "total": x.sum(), "same": np.maximum(x, 0)}

    def close(self):
        pass


class PlugInEngine(Engine):
    suffixes = (".detector",)

    def load(self, request):
        return PlugInDetector()


@pytest.fixture
def plug_in_detector(monkeypatch, tmp_path):
    find = lookup.ENGINES.find
    names = lookup.ENGINES.names
    engine = PlugInEngine()
    monkeypatch.setattr(lookup.ENGINES, "names", lambda: (*names(), "detector"))
    monkeypatch.setattr(
        lookup.ENGINES, "find", lambda name: engine if name == "detector" else find(name)
    )
    path = tmp_path / "net.detector"
    path.write_text("")
    return path


DETECTORS = [
    "torch_detector",
    "exported_detector",
    "tensorflow_detector",
    "plug_in_detector",
]


@pytest.mark.parametrize("name", DETECTORS)
def test_a_detector_gives_each_item_its_own_rows_and_them_whole(name, request):
    check_detector(request.getfixturevalue(name))


@pytest.mark.parametrize("symbol", ["k", None, "unk__3", "y_dynamic_axes_1"])
def test_an_onnx_detector_does_so_whatever_its_axis_is_called(symbol, tmp_path):
    check_detector(save_nonzero(tmp_path, symbol))


def check_detector(path):
    with Model(path, batch_size=8, batch_timeout_ms=50) as model:
        found, totals, same = model.infer_batch([[HIT, MISS, HIT]])
    for item, rows, total, copy in zip([HIT, MISS, HIT], found, totals, same, strict=True):
        expected = np.argwhere(item[np.newaxis])
        np.testing.assert_array_equal(rows.data, expected)
        assert rows.data.shape == expected.shape
        assert float(np.asarray(total.data)) == item.sum()
        np.testing.assert_array_equal(copy.data, item)


MIXING = {
    "sorted": lambda x: x.sort(0).values,
    "turned round": lambda x: x.flip(0),
    "summed up": lambda x: x.cumsum(0),
    "parts of one": lambda x: x.softmax(0),
    "each second twice": lambda x: x.repeat(2, 1)[::2],
    "each with the others": lambda x: x @ x.T,
}
ROWS = [
    np.array(row, np.float32) for row in ([3, 1, 4, 1], [1, 5, 9, 2], [6, 5, 3, 5], [8, 9, 7, 9])
]


@pytest.mark.parametrize("name", MIXING)
def test_a_model_whose_rows_depend_on_each_other_is_called_with_one_item_at_a_time(
    network, tmp_path, name
):
    torch, _ = network
    traced = torch.jit.trace(MIXING[name], torch.ones(3, 4), check_trace=False)
    torch.jit.save(traced, str(tmp_path / "mixing.pt"))
    with Model(tmp_path / "mixing.pt", batch_size=4, batch_timeout_ms=50) as model:
        (answers,) = model.infer_batch([ROWS])
        assert model.stats().figures["engine_calls"] == {1: 4}
    for row, answer in zip(ROWS, answers, strict=True):
        alone = MIXING[name](torch.from_numpy(row[np.newaxis])).numpy()
        np.testing.assert_allclose(np.ravel(answer.data), np.ravel(alone), rtol=1e-6)


def test_random_rows_do_not_depend_on_each_other(network, tmp_path):
    torch, _ = network
    traced = torch.jit.trace(lambda x: x + torch.rand_like(x), torch.ones(3, 4), check_trace=False)
    torch.jit.save(traced, str(tmp_path / "noise.pt"))
    with Model(tmp_path / "noise.pt", batch_size=4, batch_timeout_ms=50) as model:
        model.infer_batch([ROWS])
        assert model.stats().figures["engine_calls"] == {4: 1}


def test_each_output_that_turns_out_to_have_no_batch_axis_is_given_whole(network, tmp_path):
    class Masked(network[0].nn.Module):
        def forward(self, x):
            return x[x[:, 0] < 3], x[x[:, 1] < 3]

    torch = network[0]
    torch.jit.save(torch.jit.script(Masked()), str(tmp_path / "masked.pt"))
    rows = [np.array(row, np.float32) for row in ([5, 5], [1, 5], [5, 1], [1, 1])]
    with Model(tmp_path / "masked.pt", batch_size=4, batch_timeout_ms=50) as model:
        for _ in range(2):
            first, second = model.infer_batch([rows])
            for row, a, b in zip(rows, first, second, strict=True):
                assert (a.data.tolist(), b.data.tolist()) == tuple(
                    [row.tolist()] if value < 3 else [] for value in row
                )


def test_what_a_fixed_batch_sums_up_is_refused(tmp_path):
    nodes = [("ReduceSum", ["x", "axis"], ["y"])]
    axis, shape = {"axis": np.array([0])}, {"x": [4, 4]}
    path = save_onnx(tmp_path / "fixed.onnx", nodes, shape, {"y": [1, 4]}, axis)
    with pytest.raises(FlowFailed) as caught:
        Model(path, batch_size=4).start()
    assert "batches of 4, and output 'y' has no batch axis" in str(caught.value.exceptions[0])
    nodes = [("ReduceSum", ["x", "axis"], ["sum"]), ("Expand", ["sum", "four"], ["y"])]
    path = save_onnx(
        tmp_path / "wide.onnx", nodes, shape, {"y": [4, 4]}, {**axis, "four": np.array([4, 4])}
    )
    with pytest.raises(FlowFailed) as caught:
        Model(path, batch_size=4).start()
    assert "4, and the rows of output 'y' depend on each other" in str(caught.value.exceptions[0])


@pytest.mark.parametrize("columns", ["n", "m"])
def test_an_axis_that_follows_the_batch_as_well_makes_an_output_no_items(tmp_path, columns):
    nodes = [("Transpose", ["d"], ["t"]), ("MatMul", ["q", "t"], ["s"])]
    inputs = {"q": ["n", 4], "d": [columns, 4]}
    path = save_onnx(tmp_path / "pairs.onnx", nodes, inputs, {"s": ["n", columns]})
    with Model(path, batch_size=4, batch_timeout_ms=50) as model:
        (answers,) = model.infer_batch([ROWS, ROWS])
    assert [answer.data.tolist() for answer in answers] == [[[float(row @ row)]] for row in ROWS]


def test_an_output_of_the_inputs_symbol_is_batched_without_a_call(onnx_model):
    with Model(onnx_model, outputs=["scores"], batch_size=4, warmup="none") as model:
        assert not model.stats().figures["engine_calls"]
        model.infer_batch([[HIT, MISS, HIT, MISS]])
        assert model.stats().figures["engine_calls"] == {4: 1}


def test_a_scalar_input_is_one_value_of_a_call(tf, tmp_path):
    def build(v1):
        x = v1.placeholder(v1.float32, [None, 2], "x")
        k = v1.placeholder(v1.float32, [], "k")
        v1.multiply(x, k, name="y")

    path = freeze(tf, tmp_path / "scaled.pb", build)
    rows = [np.ones(2, np.float32)] * 4
    with Model(path, inputs=["x", "k"], outputs=["y"], batch_size=4) as model:
        (column,) = model.infer_batch([rows, [2.0, 3.0, 2.0, 3.0]])
    assert [buffer.data.tolist() for buffer in column] == [[2, 2], [3, 3], [2, 2], [3, 3]]


def test_a_program_with_a_bound_is_called_with_no_more(exported_detector):
    with Model(exported_detector, outputs=["output2"], batch_size=16) as model:
        (column,) = model.infer_batch([[HIT] * 20])
        assert max(model.stats().figures["engine_calls"]) <= 8
    assert all((buffer.data == HIT).all() for buffer in column)
