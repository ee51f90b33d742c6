"""The inference unit: batches, shapes, staging, errors."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas
import pyarrow
import pytest

from modelflow.buffer import Buffer
from modelflow.device import Device
from modelflow.device.pool import _host_pool
from modelflow.engine import ModelFile, lookup, read_model_file
from modelflow.engine.inference import InferenceUnit, inference_spec
from modelflow.engine.options import ThreadOptions, options_with_defaults
from modelflow.errors import ConfigError, DeviceUnavailableError, EngineError
from modelflow.testing import run_unit
from modelflow.unit.option import options_of
from modelflow.unit.port import Port
from modelflow.unit.unit import Context
from tests.engine.conftest import expected
from tests.engine.numpy_engine import NumpyEngine


@pytest.fixture
def doubling(monkeypatch, tmp_path):
    """Makes a unit over the plug-in engine, opened; the second value is its model."""
    engine = NumpyEngine()
    monkeypatch.setitem(lookup.ENGINES.instances, "doubling", engine)
    units = []

    def make(shape, batch_size=8, **options):
        path = tmp_path / "model.shape"
        path.write_text(shape)
        spec = inference_spec(read_model_file(path, engine="doubling"), "twice")
        unit = spec.create("cpu")
        unit.batch_size = batch_size
        unit.open(spec.configure(options))
        units.append(unit)
        return unit, engine.loaded[-1]

    yield make
    for unit in units:
        unit.close()


def call(unit, **inputs):
    columns = {name: [Buffer(item) for item in items] for name, items in inputs.items()}
    context = Context(columns, {port.name: [] for port in unit.model_file.outputs})
    unit.process(context)
    return context.outputs


def items(*shapes):
    return [np.full(shape, i, np.float32) for i, shape in enumerate(shapes, 1)]


def opened(path, outputs=(), **options):
    spec = inference_spec(read_model_file(path, outputs=outputs), "net")
    unit = spec.create("cpu")
    unit.open(spec.configure(options))
    return unit


def test_items_of_different_shapes_go_in_separate_calls(doubling):
    unit, model = doubling("? ?")
    given = items(2, 3, 2, 3, 3)
    found = call(unit, x=given)["y"]
    assert model.batches == [(2, 2), (3, 3)]
    for item, result in zip(given, found, strict=True):
        np.testing.assert_array_equal(result, item * 2)


def test_warm_up_runs_batches_of_one_and_of_batch_size(doubling):
    assert doubling("? 5", batch_size=8)[1].batches == [(1, 5), (8, 5)]
    assert doubling("? 5", batch_size=1)[1].batches == [(1, 5)]
    assert doubling("4 5", batch_size=8)[1].batches == [(4, 5)]
    assert doubling("? 5", warmup="none")[1].batches == []


def test_fixed_batch_is_filled_up_and_the_filling_dropped(doubling):
    unit, model = doubling("3 2", warmup="none")
    found = call(unit, x=items(2, 2, 2, 2))["y"]
    assert model.batches == [(3, 2), (3, 2)]
    assert [float(result[0]) for result in found] == [2, 4, 6, 8]
    np.testing.assert_array_equal(model.staged[1][1:], np.zeros((2, 2)))


def test_fixed_batch_of_a_real_model(fixed_batch):
    results = run_unit(inference_spec(read_model_file(fixed_batch), "f"), {"x": items(2, 2, 2, 2)})
    assert [float(b.data[0]) for b in results["twice"]] == [2, 4, 6, 8]


def test_single_item_is_not_copied(doubling):
    unit, model = doubling("? 4", warmup="none")
    (item,) = items(4)
    call(unit, x=[item])
    assert np.shares_memory(model.staged[0], item)


def test_items_that_lie_side_by_side_are_not_copied(doubling):
    unit, model = doubling("? 4", warmup="none")
    block = np.arange(12, dtype=np.float32).reshape(3, 4)
    found = call(unit, x=list(block))["y"]
    assert np.shares_memory(model.staged[0], block)
    np.testing.assert_array_equal(found, block * 2)


def test_results_are_views_of_one_array(doubling):
    unit, _ = doubling("? 4")
    first, second = call(unit, x=items(4, 4))["y"]
    assert first.base is not None
    assert first.base is second.base


def test_staging_memory_is_reused(doubling):
    unit, model = doubling("? 100 100", warmup="none")
    given = items(*[(100, 100)] * 4)
    call(unit, x=given)
    model.staged.clear()
    allocations, reuses = _host_pool.allocations, _host_pool.reuses
    for _ in range(20):
        call(unit, x=given)
        model.staged.clear()
    assert _host_pool.allocations == allocations
    assert _host_pool.reuses == reuses + 20


@pytest.mark.parametrize("count", [1, 3])
def test_output_never_shares_memory_with_input_or_other_output(two_ports, count):
    unit = opened(two_ports, ["same", "sum", "sum:0", "difference"])
    given = items(*[(8, 16384)] * count)  # big and aligned, which avoids a copy on the way
    flat = [item[0] for item in given]
    found = call(unit, a=flat, b=flat)
    arrays = [result for results in found.values() for result in results]
    for i, array in enumerate(arrays):
        assert not any(np.shares_memory(array, other) for other in [*flat, *arrays[i + 1 :]])
    np.testing.assert_array_equal(found["same"][0], flat[0])
    unit.close()


def test_output_stays_right_while_staging_is_reused(two_ports):
    unit = opened(two_ports, ["same"])
    big = [np.full(16384, i, np.float32) for i in range(4)]
    first = call(unit, a=big, b=big)["same"]
    call(unit, a=[x + 100 for x in big], b=big)
    assert [float(result[0]) for result in first] == [0, 1, 2, 3]
    unit.close()


def test_items_that_do_not_fit_fail_alone(frozen_graph):
    spec = inference_spec(read_model_file(frozen_graph), "net")
    good = np.ones(4, np.float32)
    bad = [np.ones(5, np.float32), np.ones(4, np.uint16), np.ones(4), b"abc", None, [[1], [1, 2]]]
    results = run_unit(spec, {"net/in": [good, *bad, good]})["net/scores/Add"]
    np.testing.assert_allclose(results[0].data, expected(good))
    np.testing.assert_allclose(results[-1].data, expected(good))
    texts = [buffer.get_error_msg() for buffer in results[1:-1]]
    assert "unit 'net', input 'net/in': got float32 (5,); expected float32 (4,)" in texts[0]
    assert "got uint16 (4,); expected float32 (4,)" in texts[1]
    assert "got float64 (4,)" in texts[2]
    assert "allow_cast=true" in texts[2]
    assert "got 3 bytes" in texts[3]
    assert "got NoneType" in texts[4]
    assert "got list" in texts[5]


def test_allow_cast_converts_on_the_way(frozen_graph):
    spec = inference_spec(read_model_file(frozen_graph), "net")
    given = [np.arange(4.0), np.arange(4), [1, 2, 3, 4], np.arange(4) + 1j]
    results = run_unit(spec, {"net/in": given}, allow_cast=True)["net/scores/Add"]
    for item, result in zip(given[:3], results, strict=False):
        np.testing.assert_allclose(result.data, expected(item))
        assert result.data.dtype == np.float32
    assert "got complex128 (4,)" in results[3].get_error_msg()


def test_numbers_of_no_type_of_their_own_become_the_models(frozen_graph):
    spec = inference_spec(read_model_file(frozen_graph), "net")
    row = [1.5, 2.0, 3.0, 4.25]
    typed = np.asarray(row, np.float32)
    given = [row, tuple(row), pandas.Series(typed), pyarrow.array(typed), [1, 2, 3, 4]]
    results = run_unit(spec, {"net/in": [*given, pandas.Series(row), [1j] * 4]})["net/scores/Add"]
    for item, result in zip(given, results, strict=False):
        np.testing.assert_allclose(result.data, expected(np.asarray(item, np.float32)))
        assert result.data.dtype == np.float32
    assert "got Series; expected float32 (4,)" in results[-2].get_error_msg()
    assert "got complex 1j (value 0); expected float32 (4,)" in results[-1].get_error_msg()


def test_output_without_batch_axis_is_the_value_of_one_item_at_a_time(two_ports):
    unit = opened(two_ports, ["total"])
    pair = items(2, 2)
    results = call(unit, a=pair, b=pair)["total"]
    assert [float(result) for result in results] == [float(item.sum()) for item in pair]
    unit.close()


def test_engines_own_error_is_one_sentence(two_ports):
    unit = opened(two_ports, ["sum"])
    with pytest.raises(EngineError, match=r"two\.pb: InvalidArgumentError: .*\[1,3\]$") as caught:
        call(unit, a=items(2, 2), b=items(3, 3))
    assert len(str(caught.value)) < 400
    unit.close()


def test_scalar_results_are_arrays(tf, two_ports):
    unit = opened(two_ports, ["same"])
    (result,) = call(unit, a=items(2), b=items(2))["same"]
    assert isinstance(result, np.ndarray)
    unit.close()


def test_many_threads_get_their_own_answers(saved_model):
    unit = opened(saved_model)
    barrier = threading.Barrier(32)

    def ask(seed):
        numbers = np.random.default_rng(seed)
        barrier.wait(30)
        for _ in range(20):
            given = list(numbers.random((seed % 5 + 1, 4), np.float32))
            for item, result in zip(given, call(unit, features=given)["scores"], strict=True):
                np.testing.assert_allclose(result, expected(item), rtol=1e-5)

    with ThreadPoolExecutor(32) as pool:
        list(pool.map(ask, range(32)))
    unit.close()


def test_declared_type_must_be_the_models(frozen_graph):
    ports = Port("net/in", dtype="uint8"), Port("net/scores/Add")
    unit = InferenceUnit(ModelFile(frozen_graph, "tensorflow", (ports[0],), (ports[1],)), "net")
    with pytest.raises(EngineError, match=r"'net/in': declared as uint8, but .* takes float32"):
        unit.open({})


@pytest.mark.parametrize("name", ["float", "float32"])
def test_declared_type_may_be_modelboxs_name(frozen_graph, name):
    ports = Port("net/in", dtype=name), Port("net/scores/Add")
    unit = InferenceUnit(ModelFile(frozen_graph, "tensorflow", (ports[0],), (ports[1],)))
    unit.open({})
    unit.close()


def test_missing_model_is_an_error_of_open(tmp_path):
    unit = InferenceUnit(ModelFile(tmp_path / "m.pb", "tensorflow", (), ()), "net")
    with pytest.raises(EngineError, match=r"unit 'net': model .*m\.pb: there is no such file"):
        unit.open({})


def test_spec_names_the_file_it_requires(tmp_path):
    model = ModelFile(tmp_path / "m.pb", "tensorflow", (Port("x"),), (Port("y"),))
    spec = inference_spec(model, "net")
    assert spec.required_files == (tmp_path / "m.pb",)
    assert sorted(spec.devices) == ["cpu", "cuda"]
    assert spec.is_shared


def test_config_of_the_unit_gives_the_defaults(doubling, tmp_path):
    model = ModelFile(
        tmp_path / "m", "tensorflow", (Port("x"),), (Port("y"),), {"warmup": "none", "plugin": ""}
    )
    spec = inference_spec(model, "net")
    assert spec.configure({}).warmup == "none"
    assert spec.configure({"warmup": "synthetic"}).warmup == "synthetic"
    assert all(option.help for option in spec.option_list)


@pytest.mark.parametrize(
    ("config", "what"),
    [
        ({"warmpu": "none"}, "unknown option 'warmpu'; did you mean 'warmup'"),
        ({"warmup": "yes"}, "expected one of 'none', 'synthetic'"),
    ],
)
def test_config_that_does_not_fit_is_an_error(tmp_path, config, what):
    model = ModelFile(tmp_path / "m", "tensorflow", (Port("x"),), (Port("y"),), config)
    with pytest.raises(ConfigError, match=what):
        inference_spec(model, "net")


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"plugin": "lib.so"}, "compiled plug-ins are not supported"),
        ({"config_proto": ["0a"]}, "use inter_op_threads"),
        ({"gpu_memory": "-1"}, "expected growth, a fraction, or MiB"),
    ],
)
def test_option_that_is_not_supported_says_what_to_do(tmp_path, given, what):
    spec = inference_spec(
        ModelFile(tmp_path / "m", "tensorflow", (Port("x"),), (Port("y"),)), "net"
    )
    with pytest.raises(ConfigError, match=what):
        spec.configure(given)


def test_device_that_the_engine_does_not_see_is_an_error(frozen_graph):
    spec = inference_spec(read_model_file(frozen_graph), "net")
    unit = spec.create("cuda")
    unit.device = Device("cuda", 77)
    with pytest.raises(DeviceUnavailableError, match=r"device cuda:77: TensorFlow .* sees \d+ GPU"):
        unit.open(spec.configure({}))


def test_close_frees_the_model_once(doubling):
    unit, model = doubling("? 2")
    unit.close()
    unit.close()
    assert model.closed == 1
    with pytest.raises(EngineError, match="before open, or after close"):
        call(unit, x=items(2))


def test_model_is_closed_when_open_fails_after_loading(doubling, tmp_path, monkeypatch):
    path = tmp_path / "model.shape"
    path.write_text("? 2")
    model = ModelFile(path, "doubling", (Port("x", dtype="uint8"),), (Port("y"),))
    with pytest.raises(EngineError, match="declared as uint8"):
        InferenceUnit(model).open({})
    assert lookup.ENGINES.instances["doubling"].loaded[-1].closed == 1


def test_an_open_model_says_what_one_item_of_each_port_is(doubling):
    unit, _ = doubling("? 2")
    assert {name: tensor.shape for name, tensor in unit.tensors().items()} == {"x": (2,), "y": (2,)}


def test_a_default_of_the_unit_leaves_aliases_and_bounds_of_the_option():
    options = options_with_defaults(ThreadOptions, {"intra_op_threads": "2"})
    (found,) = (one for one in options_of(options) if one.name == "intra_op_threads")
    assert (found.default, found.aliases, found.minimum) == (2, ("engine_threads",), 0)
    assert options().intra_op_threads == 2
