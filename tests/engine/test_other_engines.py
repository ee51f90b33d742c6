"""ONNX and PyTorch: every form gives the same answers, every bad file its own message."""

import re
import sys
import zipfile
from typing import Any

import numpy as np
import pytest

import modelflow
from modelflow.device import Device
from modelflow.engine import LoadRequest, engine_for, find_engine, read_model_file
from modelflow.engine.inference import inference_spec
from modelflow.errors import DeviceUnavailableError, EngineError, MissingDependencyError
from modelflow.testing import run_unit
from tests.engine.conftest import expected, save_onnx

ITEMS = [np.arange(4, dtype=np.float32) + i for i in range(5)]
FORMS = {"onnx_model": "onnx", "torchscript_model": "torch", "exported_model": "torch"}


def load(path, inputs=(), outputs=(), device=None, types=None, **options):
    engine = find_engine(engine_for(path))
    request = LoadRequest(
        path,
        device or Device("cpu"),
        engine.options(**options),
        tuple(inputs),
        tuple(outputs),
        types or {},
    )
    return engine.load(request)


@pytest.mark.parametrize("form", FORMS)
def test_model_of_each_form_gives_its_answers(form, request):
    file = read_model_file(request.getfixturevalue(form))
    assert file.engine == FORMS[form]
    (port,) = file.inputs
    (output,) = file.outputs
    assert (port.name, port.dtype) == ("features", "float32")
    results = run_unit(inference_spec(file, "net"), {"features": ITEMS})[output.name]
    for item, result in zip(ITEMS, results, strict=True):
        np.testing.assert_allclose(result.data, expected(item), rtol=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_wrong_ports_list_the_models_own(form, request):
    path = request.getfixturevalue(form)
    with pytest.raises(EngineError, match=r"no input 'feature'; did you mean 'features'.*float32"):
        load(path, ["features", "feature"])
    with pytest.raises(EngineError, match=r"no output 'a'; the model's outputs are: "):
        load(path, ["features"], ["a", "b"])


@pytest.mark.parametrize("form", FORMS)
def test_wrong_items_fail_alone_and_say_why(form, request):
    file = read_model_file(request.getfixturevalue(form))
    items = [ITEMS[0], np.ones(5, np.float32), np.ones(4, np.int32), ITEMS[1]]
    results = run_unit(inference_spec(file, "net"), {"features": items})[file.outputs[0].name]
    np.testing.assert_allclose(results[3].data, expected(ITEMS[1]), rtol=1e-5)
    np.testing.assert_allclose(results[0].data, expected(ITEMS[0]), rtol=1e-5)
    texts = [buffer.get_error_msg() for buffer in results[1:3]]
    if form == "torchscript_model":  # this form lacks shapes, so PyTorch itself refuses
        assert "shapes cannot be multiplied" in texts[0]
    else:
        assert "got float32 (5,); expected float32 (4,)" in texts[0]
    assert "got int32 (4,); expected float32" in texts[1]


@pytest.mark.parametrize("form", FORMS)
def test_file_cut_off_is_an_error(form, request, tmp_path):
    whole = request.getfixturevalue(form)
    path = tmp_path / f"cut{whole.suffix}"
    path.write_bytes(whole.read_bytes()[:-40])
    with pytest.raises(EngineError, match=r"cut off|does not load it") as caught:
        load(path)
    assert str(path) in str(caught.value)


BAD_FILES = [
    ("empty.onnx", b"", "an empty file.*does not load it"),
    ("keras.onnx", b"PK\x03\x04" + bytes(50), "a zip archive"),
    ("text.pt", b"{}", r"a text file \(JSON\); expected TorchScript"),
    ("empty.pt2", b"", "an empty file; expected TorchScript"),
    ("pickle.pt", b"\x80\x02abc", "a Python pickle; expected TorchScript"),
]


@pytest.mark.parametrize(("name", "content", "what"), BAD_FILES)
def test_file_that_is_no_model_says_what_it_looks_like(tmp_path, name, content, what):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(EngineError, match=what):
        load(path)


def test_pickled_module_is_refused_unread(torch, torch_network, tmp_path):
    path = tmp_path / "module.pt"
    torch.save(torch_network.state_dict(), str(path))
    with pytest.raises(EngineError, match=r"a pickled Python object \(torch\.save\), which could"):
        load(path)


def test_other_zip_archive_is_refused(tmp_path):
    path = tmp_path / "words.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("word/document.xml", "<a/>")
    with pytest.raises(EngineError, match="a zip archive of another kind; expected TorchScript"):
        load(path)


def test_onnx_input_without_port_is_named(models):
    path = save_onnx(
        models / "sum.onnx",
        [("Add", ["a", "b"], ["y"])],
        {"a": ["n", 2], "b": ["n", 2]},
        {"y": ["n", 2]},
    )
    with pytest.raises(EngineError, match=r"its input b \(float32 \(\?, 2\)\) is fed by no port"):
        load(path, ["a"])
    model = load(path)
    ones = np.ones((2, 2), np.float32)
    np.testing.assert_array_equal(model.run({"a": ones, "b": ones})["y"], ones * 2)
    model.close()
    with pytest.raises(EngineError, match="the model is closed"):
        model.run({"a": ones, "b": ones})


@pytest.mark.parametrize(
    ("opset", "weights", "message"),
    [
        (99, b"", r"opset 99 of ai\.onnx, newer than the known opset \d+: convert the"),
        (17, None, r"does not load it: .*weights\.bin"),
        (17, b"abc", r"initialization: External initializer: w offset: 0 size to read: 24 given"),
    ],
)
def test_what_onnx_runtime_does_not_load_is_said_without_its_source(
    tmp_path, opset, weights, message
):
    from onnx import TensorProto, helper, numpy_helper, save

    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])
    product = helper.make_node("MatMul", ["x", "w"], ["y"])
    w = numpy_helper.from_array(np.ones((2, 3), np.float32), "w")
    graph = helper.make_graph([product], "net", [x], [y], [w])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    place = {"location": "weights.bin", "size_threshold": 0}
    save(model, tmp_path / "net.onnx", save_as_external_data=True, **place)
    (tmp_path / "weights.bin").unlink()
    if weights is not None:
        (tmp_path / "weights.bin").write_bytes(weights)
    with pytest.raises(EngineError, match=message) as caught:
        load(tmp_path / "net.onnx")
    assert not re.search(r"\.(cc|h):\d|\[ONNX", str(caught.value))


def test_a_result_that_is_no_array_hinders_nobody_who_does_not_ask_for_it(tmp_path):
    """Tests labels and a list of maps from ``ZipMap``, as in converted scikit-learn models."""
    from onnx import TensorProto, helper, save

    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2])
    label = helper.make_tensor_value_info("label", TensorProto.INT64, ["n"])
    to_float = helper.make_map_type_proto(
        TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    )
    maps = helper.make_value_info("maps", helper.make_sequence_type_proto(to_float))
    nodes = [
        helper.make_node("ArgMax", ["x"], ["label"], axis=1, keepdims=0),
        helper.make_node("ZipMap", ["x"], ["maps"], domain="ai.onnx.ml", classlabels_int64s=[0, 1]),
    ]
    graph = helper.make_graph(nodes, "classes", [x], [label, maps])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    path = tmp_path / "classes.onnx"
    save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    items = [np.array(item, np.float32) for item in ([1, 2], [4, 3])]
    with modelflow.Model(path, outputs=["label"]) as model:
        assert [model.infer([item])[0].data for item in items] == [1, 0]
    with pytest.raises(EngineError, match=r"'maps' is of type seq\(map.*zipmap=False"):
        load(path)


def test_onnx_error_is_one_sentence(onnx_model):
    model = load(onnx_model)
    with pytest.raises(EngineError, match=r"net\.onnx: Got invalid dimensions") as caught:
        model.run({"features": np.zeros((2, 5), np.float32)})
    assert "\n" not in str(caught.value)
    model.close()


def test_torchscript_tuple_and_its_names(torch, tmp_path):
    class Pair(torch.nn.Module):
        def forward(self, a, b):
            return a + b, a - b

    path = tmp_path / "pair.pt"
    example = torch.zeros(1, 2), torch.zeros(1, 2)
    torch.jit.save(torch.jit.trace(Pair(), example), str(path))
    file = read_model_file(path)
    assert [p.name for p in file.inputs] == ["a", "b"]
    assert [p.name for p in file.outputs] == ["output0", "output1"]
    ones = np.ones((3, 2), np.float32)
    model = load(path, ["b", "a"], ["sum", "difference"])
    found = model.run({"a": ones * 3, "b": ones})
    assert [float(found[name][0, 0]) for name in ("sum", "difference")] == [4, 2]
    assert [spec.name for spec in model.inputs] == ["b", "a"]
    only = load(path, ["a", "b"], ["output1"]).run({"a": ones * 3, "b": ones})
    assert float(only["output1"][0, 0]) == 2
    with pytest.raises(EngineError, match=r"its input b \(float32\) is fed by no port"):
        load(path, ["a"])


def test_torchscript_ports_of_other_names_feed_its_arguments_by_position(torch, tmp_path, caplog):
    class Difference(torch.nn.Module):
        def forward(self, a, b):
            return a - b

    path = tmp_path / "difference.pt"
    example = torch.zeros(1, 2), torch.zeros(1, 2)
    torch.jit.save(torch.jit.trace(Difference(), example), str(path))
    caplog.set_level("INFO", logger="modelflow")
    model = load(path, ["Input", "Other"])
    ones = np.ones((3, 2), np.float32)
    found = model.run({"Input": ones * 3, "Other": ones})
    assert float(found["output"][0, 0]) == 2
    assert "by position: Input -> a, Other -> b" in caplog.text
    with pytest.raises(EngineError, match=r"no input 'Other'"):
        load(path, ["a", "Other"])  # with one common name, all names are matched by name
    with pytest.raises(EngineError, match=r"no input 'Input'"):
        load(path, ["Input"])


def test_exported_dict_has_its_keys(torch, tmp_path):
    class Named(torch.nn.Module):
        def forward(self, x):
            return {"twice": x * 2, "more": x + 1}

    path = tmp_path / "named.pt2"
    torch.export.save(torch.export.export(Named(), (torch.zeros(3, 2),)), str(path))
    file = read_model_file(path)
    assert [p.name for p in file.outputs] == ["twice", "more"]
    # exported for batches of 3, to which smaller batches are padded
    results = run_unit(inference_spec(file, "n"), {"x": [np.ones(2, np.float32)] * 4})
    assert [float(b.data[0]) for b in results["more"]] == [2] * 4


def test_torchscript_types_are_those_that_the_unit_declares(torch, tmp_path):
    class Lookup(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.nn.Embedding(5, 2)

        def forward(self, ids):
            return self.table(ids)

    path = tmp_path / "lookup.pt"
    torch.jit.save(torch.jit.trace(Lookup(), torch.zeros(1, dtype=torch.int64)), str(path))
    model = load(path, types={"ids": np.dtype(np.int64)})
    assert model.inputs[0].dtype == np.int64
    assert model.run({"ids": np.array([1, 2])})["output"].shape == (2, 2)


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_precision_is_of_the_inside_only(torchscript_model, precision):
    model = load(torchscript_model, precision=precision)
    found = model.run({"features": np.stack(ITEMS)})["output"]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, [expected(item) for item in ITEMS], rtol=2e-2)


def test_channels_last_gives_the_same_answers(torch, tmp_path):
    path = tmp_path / "conv.pt"
    network = torch.nn.Conv2d(3, 4, 3).eval()
    torch.jit.save(torch.jit.trace(network, torch.zeros(1, 3, 8, 8)), str(path))
    images = np.random.default_rng(1).random((2, 3, 8, 8), np.float32)
    plain, other = load(path), load(path, channels_last=True)
    (port,) = plain.inputs
    found = [model.run({port.name: images})["output"] for model in (plain, other)]
    np.testing.assert_allclose(found[0], found[1], atol=1e-5)
    assert found[1].flags.c_contiguous


def test_read_only_items_make_no_warning(torchscript_model):
    array = np.stack(ITEMS)
    array.flags.writeable = False
    assert load(torchscript_model).run({"features": array})["output"].shape == (5, 3)


def test_a_module_that_writes_to_its_inputs_leaves_read_only_arrays_as_they_are(torch, tmp_path):
    class Greedy(torch.nn.Module):
        def forward(self, a):
            return a.mul_(2)

    path = tmp_path / "greedy.pt"
    torch.jit.save(torch.jit.trace(Greedy(), torch.zeros(1, 2)), str(path))
    model = load(path)
    array = np.ones((3, 2), np.float32)
    array.flags.writeable = False
    for _ in range(3):
        assert (model.run({"a": array})["output"] == 2).all()
        assert (array == 1).all()


def test_a_module_that_only_reads_is_given_read_only_arrays_uncopied(torch, tmp_path):
    class Same(torch.nn.Module):
        def forward(self, a):
            return a

    path = tmp_path / "same.pt"
    torch.jit.save(torch.jit.trace(Same(), torch.zeros(1, 2)), str(path))
    model = load(path)
    array = np.ones((3, 2), np.float32)
    array.flags.writeable = False
    model.run({"a": array})
    assert np.shares_memory(model.run({"a": array})["output"], array)


def test_cuda_graphs_are_for_few_batch_sizes():
    options: Any = find_engine("torch").options
    assert options(cuda_graph=True).has_few_sizes
    assert not options().has_few_sizes


def test_cuda_graph_needs_a_cuda_device(torchscript_model):
    with pytest.raises(EngineError, match=r"cuda_graph: got true on the device cpu:0; it needs"):
        load(torchscript_model, cuda_graph=True)


def test_gpu_that_is_not_seen_is_an_error(torchscript_model, onnx_model):
    with pytest.raises(DeviceUnavailableError, match=r"device cuda:77: PyTorch .* sees \d+ GPUs"):
        load(torchscript_model, device=Device("cuda", 77))
    with pytest.raises(DeviceUnavailableError, match="has no CUDAExecutionProvider, only"):
        load(onnx_model, device=Device("cuda", 77))


@pytest.mark.parametrize("package", ["onnxruntime", "torch"])
def test_missing_package_names_the_extra(package, onnx_model, torchscript_model, monkeypatch):
    from modelflow.engine.onnx.settings import load_runtime

    monkeypatch.setitem(sys.modules, package, None)
    load_runtime.cache_clear()
    path, extra = (onnx_model, "onnx") if package == "onnxruntime" else (torchscript_model, "torch")
    with pytest.raises(MissingDependencyError, match=rf"pip install 'modelflow-graph\[{extra}\]'"):
        load(path)


def test_engines_have_other_names():
    assert find_engine("onnxruntime") is find_engine("onnx")
    assert find_engine("pytorch") is find_engine("torch")
