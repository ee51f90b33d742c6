"""Tests OpenVINO's forms of files, ports, batches, precisions and refusals against NumPy."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest

import modelflow
from modelflow.device import Device
from modelflow.engine import LoadRequest, engine_for, find_engine, read_model_file
from modelflow.engine.inference import inference_spec
from modelflow.engine.lookup import choose_versions
from modelflow.errors import EngineError, GraphError, ItemRefusedError
from modelflow.testing import run_unit
from tests.engine.conftest import WEIGHTS, expected, save_onnx

openvino = pytest.importorskip("openvino")
ops = pytest.importorskip("openvino.opset13")
ITEMS = [np.arange(4, dtype=np.float32) + i for i in range(5)]


def load(path, inputs=(), outputs=(), **options):
    engine = find_engine("openvino")
    request = LoadRequest(path, Device("cpu"), engine.options(**options), inputs, outputs)
    return engine.load(request)


def save(path, outputs, inputs):
    model = openvino.Model([ops.result(output) for output in outputs], list(inputs), "net")
    path.parent.mkdir(parents=True, exist_ok=True)
    openvino.save_model(model, path, compress_to_fp16=False)
    return path


def parameter(shape, dtype=np.float32, name="x"):
    found = ops.parameter(shape, dtype, name=name)
    found.output(0).set_names({name})
    return found


@pytest.fixture(scope="module")
def xml_model(onnx_model, models):
    path = models / "openvino" / "net.xml"
    path.parent.mkdir()
    model = openvino.Core().read_model(str(onnx_model))
    openvino.save_model(model, path, compress_to_fp16=False)
    return path


@pytest.fixture
def doubled(tmp_path):
    x = parameter([-1, 3])
    return save(tmp_path / "doubled.xml", [ops.add(x, x)], [x])


@pytest.mark.parametrize("form", ["xml_model", "onnx_model", "saved_model"])
def test_model_of_each_form_gives_its_answers(form, request):
    path = request.getfixturevalue(form)
    file = read_model_file(path, engine="openvino", outputs=["scores"])
    assert [(port.name, port.dtype) for port in file.inputs] == [("features", "float32")]
    results = run_unit(inference_spec(file, "net"), {"features": ITEMS})["scores"]
    for item, result in zip(ITEMS, results, strict=True):
        np.testing.assert_allclose(result.data, expected(item), rtol=1e-5)


def test_only_the_file_of_its_own_is_its_file_by_default(xml_model, onnx_model, saved_model):
    found = [engine_for(path) for path in (xml_model, onnx_model, saved_model)]
    assert found == ["openvino", "onnx", "tensorflow"]


def test_a_version_is_the_file_beside_its_weights(xml_model, tmp_path):
    for number in (1, 2):
        (tmp_path / "net" / str(number)).mkdir(parents=True)
        for file in (xml_model, xml_model.with_suffix(".bin")):
            shutil.copy(file, tmp_path / "net" / str(number))
    versions = choose_versions(tmp_path / "net", "1,2")
    assert [path.relative_to(tmp_path).as_posix() for path in versions.values()] == [
        "net/1/net.xml",
        "net/2/net.xml",
    ]
    with modelflow.Model(tmp_path / "net") as model:
        model.reload()
        np.testing.assert_allclose(model.infer([ITEMS[1]])[0].data, expected(ITEMS[1]), rtol=1e-5)


def test_any_name_of_a_tensor_is_a_port(tmp_path):
    x = parameter([-1, 2])
    x.output(0).set_names({"x", "x:0", "serving_default_x:0"})
    y = ops.add(x, x)
    y.output(0).set_names({"twice:0", "twice"})
    path = save(tmp_path / "net.xml", [y], [x])
    assert [spec.name for spec in load(path).inputs + load(path).outputs] == ["x", "twice"]
    model = load(path, ["serving_default_x:0"], ["twice:0"])
    found = model.run({"serving_default_x:0": np.ones((3, 2), np.float32)})
    np.testing.assert_array_equal(found["twice:0"], np.full((3, 2), 2, np.float32))


def test_wrong_ports_list_the_models_own(xml_model):
    listed = r"the model's inputs are: features \(float32 \(\?, 4\)\)"
    with pytest.raises(
        EngineError, match=rf"no input 'feature'; did you mean 'features'.*{listed}"
    ):
        load(xml_model, ["feature"])
    with pytest.raises(EngineError, match=r"no output 'a'; the model's outputs are: scores"):
        load(xml_model, ["features"], ["a"])


def test_an_input_without_port_is_named(tmp_path):
    a, b = parameter([-1, 2], name="a"), parameter([-1, 2], name="b")
    path = save(tmp_path / "sum.xml", [ops.add(a, b)], [a, b])
    with pytest.raises(EngineError, match=r"its input b \(float32 \(\?, 2\)\) is fed by no port"):
        load(path, ["a"])


def damaged(folder, whole, kind):
    path, binary = folder / "net.xml", folder / "net.bin"
    text = whole.read_bytes()
    path.write_bytes({"cut": text[:-200], "empty": b"", "page": b"<html></html>"}.get(kind, text))
    if kind != "no weights":
        weights = whole.with_suffix(".bin").read_bytes()
        binary.write_bytes(weights[:-4] if kind == "cut weights" else weights)
    return path


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("cut", "does not load it: "),
        ("empty", r"an empty file without <net>; expected an OpenVINO model \(\.xml and \.bin\)"),
        ("page", r"a text file \(HTML or XML\) without <net>; expected an OpenVINO model"),
        ("no weights", r"there is no net\.bin next to it, which holds the weights; OpenVINO"),
        ("cut weights", r"does not load it: Incorrect weights in bin file"),
    ],
)
def test_damaged_file_is_an_error(kind, message, xml_model, tmp_path):
    path = damaged(tmp_path, xml_model, kind)
    with pytest.raises(EngineError, match=message) as caught:
        load(path)
    said = str(caught.value)
    assert said.startswith(f"model {path}: ")
    assert "Exception from" not in said
    assert "failed at" not in said


def test_a_page_for_an_onnx_file_says_what_it_looks_like(tmp_path):
    page = tmp_path / "net.onnx"
    page.write_text("<html></html>")
    with pytest.raises(
        EngineError, match=r"a text file \(HTML or XML\); OpenVINO .* does not load"
    ):
        load(page)


def test_other_files_and_folders_are_refused(tmp_path):
    other = tmp_path / "net.keras"
    other.write_bytes(b"PK\x03\x04")
    with pytest.raises(EngineError, match=r"a zip archive .*; expected an OpenVINO model"):
        load(other)
    with pytest.raises(EngineError, match=r"a folder without saved_model\.pb; expected an Open"):
        load(tmp_path)


def test_what_openvino_does_not_know_is_named(tmp_path):
    ports = {"x": ["n", 2]}, {"y": ["n", 2]}
    path = save_onnx(tmp_path / "net.onnx", [("Unheard", ["x"], ["y"])], *ports)
    with pytest.raises(EngineError, match=r"\.onnx: OpenVINO .* operations: Unheard"):
        load(path)


@pytest.mark.parametrize(
    ("dtype", "message"),
    [
        (openvino.Type.string, "the port 'x' is of type string; .*the engine of its own library"),
        (openvino.Type.bf16, "the port 'x' is of type bf16; expected one of boolean, f16, f32"),
    ],
)
def test_a_type_that_numpy_or_openvino_lacks_is_refused(dtype, message, tmp_path):
    x = parameter([-1, 2], dtype)
    with pytest.raises(EngineError, match=message):
        load(save(tmp_path / "net.xml", [x], [x]))


def test_a_model_of_any_number_of_axes_is_refused(tmp_path):
    x = parameter(openvino.PartialShape.dynamic())
    with pytest.raises(EngineError, match="an input has any number of axes; OpenVINO on the CPU"):
        load(save(tmp_path / "net.xml", [ops.add(x, x)], [x]))


@pytest.mark.parametrize("dtype", ["int64", "uint32", "uint64"])
def test_whole_numbers_that_openvino_would_cut_are_refused(dtype, tmp_path):
    x = parameter([-1, 2], np.dtype(dtype))
    with modelflow.Model(save(tmp_path / "net.xml", [ops.add(x, x)], [x])) as model:
        fitting = np.array([1 << 30, 5], dtype) - 1
        (found,) = model.infer([fitting])
        assert found.data.dtype == dtype
        np.testing.assert_array_equal(found.data, fitting * 2)
        text = rf"input 'x': got {1 << 31}; expected a number that int32 holds, .* {dtype} as int32"
        with pytest.raises(modelflow.FlowUnitError, match=text) as caught:
            model.infer([np.array([1, 1 << 31], dtype)])
        assert caught.value.is_refusal


def test_float64_is_computed_as_float32_with_a_note(tmp_path, caplog):
    x = parameter([-1, 2], np.float64)
    path = save(tmp_path / "net.xml", [ops.add(x, x)], [x])
    caplog.set_level("INFO", logger="modelflow")
    found = load(path).run({"x": np.full((1, 2), 0.1)})
    (value,) = found.values()
    assert (value.dtype, value[0, 0]) == (np.float64, np.float32(0.1) * 2)
    assert "OpenVINO computes the float64 of the port 'x' as float32" in caplog.text


def product(x):
    return ops.matmul(x, ops.constant(WEIGHTS), False, False)


def reshaped(x):
    return ops.reshape(x, ops.constant(np.array([-1, 2, 2])), False)


@pytest.mark.parametrize(
    ("body", "message"),
    [(product, "Incompatible MatMul matrix dimension"), (reshaped, "not divisible|reshape")],
)
@pytest.mark.parametrize("width", [3, 5, 5001])  # OpenVINO itself multiplies rows of any width
def test_a_shape_that_only_openvino_refuses_is_the_clients_fault(body, message, width, tmp_path):
    x = parameter([-1, -1])
    right = ITEMS[1] @ WEIGHTS if body is product else ITEMS[1].reshape(2, 2)
    with modelflow.Model(save(tmp_path / "net.xml", [body(x)], [x])) as model:
        for _ in range(2):  # the first call looks for batch axes
            with pytest.raises(modelflow.FlowUnitError, match=message) as caught:
                model.infer([np.zeros(width, np.float32)])
            assert isinstance(caught.value.__cause__, ItemRefusedError)
            said = str(caught.value)
            assert not any(part in said for part in ("Exception", "Check '", str(tmp_path)))
            np.testing.assert_array_equal(model.infer([ITEMS[1]])[0].data, right)


def test_what_there_is_no_memory_for_is_the_engines_own_failure(tmp_path):
    x = parameter([-1, 3])
    lengths = ops.concat([ops.constant(np.array([10**5, 10**6])), ops.shape_of(x)], 0)
    model = load(save(tmp_path / "net.xml", [ops.broadcast(x, lengths)], [x]))
    with pytest.raises(EngineError, match="llocate") as caught:
        model.run({"x": np.ones((9, 3), np.float32)})
    assert type(caught.value) is EngineError


def test_bounds_of_the_batch_are_kept(tmp_path):
    x = parameter(openvino.PartialShape([openvino.Dimension(1, 2), 3]))
    path = save(tmp_path / "net.xml", [ops.add(x, x)], [x])
    assert load(path).batch_range == (1, 2)
    results = run_unit(
        inference_spec(read_model_file(path), "net"), {"x": [np.ones(3, np.float32)] * 5}
    )
    assert [one.data.tolist() for (rows,) in [results.values()] for one in rows] == [[2] * 3] * 5


def test_results_are_not_overwritten_by_later_calls(doubled):
    model = load(doubled)
    (first,) = model.run({"x": np.ones((2, 3), np.float32)}).values()
    model.run({"x": np.full((2, 3), 5, np.float32)})
    np.testing.assert_array_equal(first, np.full((2, 3), 2, np.float32))


def test_calls_share_the_infer_requests_of_earlier_calls(doubled, monkeypatch):
    model, made = load(doubled), []
    create = model._compiled.create_infer_request

    def counted():
        made.append(create())
        return made[-1]

    monkeypatch.setattr(model._compiled, "create_infer_request", counted, raising=False)
    threads = 4
    together = Barrier(threads)

    def ask(number):
        together.wait()
        for _ in range(50):
            (found,) = model.run({"x": np.full((1, 3), number, np.float32)}).values()
            assert found.tolist() == [[2 * number] * 3]

    for _ in range(2):
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(ask, range(threads)))
    assert 1 <= len(made) <= threads
    model.close()
    with pytest.raises(EngineError, match="the model is closed"):
        model.run({"x": np.ones((1, 3), np.float32)})


def test_variables_keep_one_state_for_all_threads(tmp_path):
    x = parameter([1, 1])
    before = openvino.opset6.read_value(ops.constant(np.zeros((1, 1), np.float32)), "total")
    total = ops.add(before, x)
    model = openvino.Model(
        [ops.result(total)], [openvino.opset6.assign(total, "total")], [x], "net"
    )
    openvino.save_model(model, tmp_path / "net.xml", compress_to_fp16=False)
    loaded = load(tmp_path / "net.xml")
    assert loaded.is_stateful
    with ThreadPoolExecutor(4) as pool:
        ones = [np.ones((1, 1), np.float32)] * 40
        found = pool.map(lambda one: next(iter(loaded.run({"x": one}).values())).item(), ones)
    assert sorted(found) == list(range(1, 41))


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """Writes a product of 256 numbers that bfloat16 rounds."""
    x = parameter([-1, 256])
    weights = np.random.default_rng(0).standard_normal((256, 64)).astype(np.float32)
    path = tmp_path_factory.mktemp("wide") / "net.xml"
    return save(path, [ops.matmul(x, ops.constant(weights), False, False)], [x]), weights


def error_of(wide, **options):
    path, weights = wide
    rows = np.random.default_rng(1).standard_normal((8, 256)).astype(np.float32)
    (found,) = load(path, **options).run({"x": rows}).values()
    right = rows.astype(np.float64) @ weights
    return np.abs(found - right).max() / np.abs(right).max()


def test_precision_is_float32_unless_asked_for(wide):
    assert error_of(wide) < 1e-5
    assert error_of(wide, precision="auto") < 0.02


def test_bf16_is_computed_in_bf16_or_refused(wide):
    capabilities = openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    if "BF16" not in capabilities:
        with pytest.raises(EngineError, match="precision: got bf16, which OpenVINO does not"):
            error_of(wide, precision="bf16")
        return
    assert 1e-4 < error_of(wide, precision="bf16") < 0.02


def test_bf16_on_a_processor_without_it_is_an_error(wide, monkeypatch):
    from modelflow.engine.openvino import engine

    class Old:
        def get_property(self, device, name):
            return ["FP32", "INT8"]

    monkeypatch.setattr(engine, "_core", Old)
    text = (
        r"precision: got bf16, which .* on this processor \(it has FP32, INT8\); set fp32 or auto"
    )
    with pytest.raises(EngineError, match=text):
        load(wide[0], precision="bf16")


@pytest.mark.parametrize(
    ("options", "name", "value"),
    [
        ({"num_streams": 2}, "NUM_STREAMS", 2),
        ({"intra_op_threads": 1}, "INFERENCE_NUM_THREADS", 1),
        ({"performance_hint": "throughput"}, "PERFORMANCE_HINT", "THROUGHPUT"),
        ({}, "PERFORMANCE_HINT", "LATENCY"),
    ],
)
def test_options_are_the_librarys_own_settings(options, name, value, doubled):
    assert load(doubled, **options)._compiled.get_property(name) == value


def test_only_the_processor_runs_it(doubled):
    with pytest.raises(GraphError, match=r"cuda.*cpu"):
        modelflow.Model(doubled, device="cuda").start()


def test_a_scalar_input_and_an_output_without_rows(tmp_path):
    x, k = parameter([-1, 3]), parameter([], name="k")
    larger = ops.convert(ops.greater(x, k), "f32")
    total = ops.reduce_sum(x, ops.constant(np.array([0, 1])), False)
    larger.output(0).set_names({"larger"})
    total.output(0).set_names({"total"})
    path = save(tmp_path / "net.xml", [larger, total], [x, k])
    with modelflow.Model(path) as model:
        for bound, found in ((1.5, [0, 1, 1]), (2.5, [0, 0, 1])):
            answers = model.infer([np.array([1, 2, 3], np.float32), np.float32(bound)])
            assert [answer.data.tolist() for answer in answers] == [found, 6]
