"""Models that a class of the user loads and runs."""

import re
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import numpy as np
import pytest

import modelflow
from modelflow.engine import LoadRequest, find_engine, read_model_file
from modelflow.errors import ConfigError, EngineError, FlowFailed, FlowUnitError
from modelflow.graph.files import look_beside
from modelflow.remote import ProcessEngine, place_nodes
from tests.in_process import run_here

HERE = f"{__name__}:"


def port(name, dtype="float32", shape=None):
    return (modelflow.Port(name, dtype=dtype, shape=shape),)


class Affine(modelflow.PythonModel):
    """Reads a factor from its file."""

    inputs = port("x", shape="(2,)")
    outputs = port("y", shape="(2,)")
    batches: ClassVar[list[int]] = []
    closed: ClassVar[list[float]] = []

    def load(self, path, device):
        self.factor, self.device = np.float32(path.read_text()), device

    def predict(self, x):
        if (x < 0).any():
            raise modelflow.BadRequest("negative numbers")
        if (x == 99).any():
            raise RuntimeError("boom")
        self.batches.append(len(x))
        x *= self.factor  # the arrays are its own
        return x

    def close(self):
        self.closed.append(float(self.factor))


@pytest.fixture
def path(tmp_path):
    Affine.batches, Affine.closed = [], []
    found = tmp_path / "affine.txt"
    found.write_text("3")
    return found


def model_of(path, cls=Affine, **options):
    return modelflow.Model(path, engine=f"{HERE}{cls.__name__}", **options)


def test_a_class_runs_batches_as_an_engine_does(path):
    rows = [np.float32([number, 1]) for number in range(10)]
    with model_of(path, batch_size=4, warmup="none") as model:
        assert (model.inputs, model.outputs) == (("x",), ("y",))
        (found,) = model.infer_batch([rows])
        calls = model.stats().figures["engine_calls"]
    assert [buffer.data.tolist() for buffer in found] == [[3 * n, 3] for n in range(10)]
    assert sum(size * count for size, count in calls.items()) == 10
    assert sorted(Affine.batches) == sorted(s for s, count in calls.items() for _ in range(count))
    assert all(row[1] == 1 for row in rows)  # predict writes to arrays of its own
    assert Affine.closed == [3]


def test_it_is_warmed_up_in_each_batch_size(path):
    with model_of(path, batch_size=4):
        assert Affine.batches == [1, 4]


def refuse_zeros(x):
    if not x.any():
        raise ValueError("nothing but zeros")
    return x


def test_a_model_that_refuses_the_zeros_of_its_warm_up_says_so(path, monkeypatch):
    monkeypatch.setattr(f"{__name__}.Returned", returning(refuse_zeros), raising=False)
    with pytest.raises(FlowFailed) as failed, modelflow.Model(path, engine=f"{HERE}Returned"):
        pass
    message = "refuses the zeros of its warm-up: nothing but zeros; accept them, or set warmup=none"
    assert message in str(failed.value.exceptions)
    with modelflow.Model(path, engine=f"{HERE}Returned", warmup="none") as model:
        assert model.infer([np.ones(2, np.float32)])[0].data.tolist() == [1, 1]


def test_a_bad_row_fails_alone(path):
    rows = [np.float32([number, 1]) for number in (1, -1, 99, 2)]
    with model_of(path, batch_size=4, batch_timeout_ms=1000) as model:
        (found,) = model.infer_batch([rows])
    good, refused, broken, last = found
    assert (good.data[0], last.data[0]) == (3, 6)
    assert refused.error.is_refusal
    assert "negative numbers" in str(refused.error)
    assert not broken.error.is_refusal
    assert "RuntimeError: boom" in str(broken.error)


def test_a_row_of_another_shape_or_type_is_refused_before_predict(path):
    with model_of(path) as model:
        for item in (np.zeros(3, np.float32), np.zeros(2, "U1")):
            with pytest.raises(FlowUnitError, match=r"input 'x': got .*expected float32 \(2,\)"):
                model.infer([item])


def test_a_reload_loads_the_newest_version_and_closes_the_old_one(path):
    folder = path.parent / "versions"
    for number, factor in ((1, "2"), (2, "5")):
        (folder / str(number)).mkdir(parents=True)
        (folder / str(number) / "model.txt").write_text(factor)
    item = np.ones(2, np.float32)
    with model_of(folder, version="1") as model:
        assert model.infer([item])[0].data[0] == 2
    with model_of(folder) as model:
        assert model.infer([item])[0].data[0] == 5
        (folder / "3").mkdir()
        (folder / "3" / "model.txt").write_text("7")
        model.reload()
        assert model.infer([item])[0].data[0] == 7
        assert Affine.closed[-1] == 5


class Slow(Affine):
    """Counts the callers inside predict."""

    together = 0

    def predict(self, x):
        if not self.turn.acquire(blocking=False):
            type(self).together += 1
            return x
        try:
            self.other.wait(0.05)  # a second caller comes meanwhile, or is kept out
        finally:
            self.turn.release()
        return x

    def load(self, path, device):
        super().load(path, device)
        self.turn, self.other = threading.Lock(), threading.Event()


class SafeSlow(Slow):
    is_thread_safe = True
    barrier = threading.Barrier(2)

    def predict(self, x):
        self.barrier.wait(10)  # only two callers at once get past
        return x


@pytest.mark.parametrize("cls", [Slow, SafeSlow])
def test_one_batch_runs_at_a_time_unless_the_class_is_thread_safe(path, cls):
    with (
        model_of(path, cls, threads=2, warmup="none") as model,
        ThreadPoolExecutor(2) as clients,
    ):
        list(clients.map(lambda _: model.infer([np.ones(2, np.float32)]), range(4)))
    assert Slow.together == 0


class Texts(modelflow.PythonModel):
    """Takes two inputs and returns two outputs."""

    inputs = port("text", "string", "()") + port("times", "int64", "()")
    outputs = port("long", "string", "()") + port("length", "int32")

    def load(self, path, device):
        """Needs no file."""

    def predict(self, batch):
        assert {type(text) for text in batch["text"]} == {str}
        texts = [text * times for text, times in zip(batch["text"], batch["times"], strict=True)]
        return {"long": texts, "length": [len(text) for text in texts]}


def test_several_ports_are_mappings_and_text_is_str(path):
    with model_of(path, Texts, batch_size=2) as model:
        long, length = model.infer_batch([["ab", b"\xc3\xa9"], [2, 3]])
    assert [buffer.data for buffer in long] == ["abab", "ééé"]
    assert [buffer.data.tolist() for buffer in length] == [4, 3]
    assert {buffer.data.dtype for buffer in length} == {np.dtype("int32")}


def returning(value, outputs=None):
    """Returns a class whose predict returns a value."""

    class Returning(Affine):
        def predict(self, x):
            return value(x) if callable(value) else value

    if outputs is not None:
        Returning.outputs = outputs
    return Returning


RESULTS = {
    "too few rows": (
        lambda x: x[:1],
        None,
        r"got float32 \(1, 2\).*return a row for each of the 2",
    ),
    "no rows": (np.float32(1), None, r"got float32 \(\); expected float32 \(2, 2\)"),
    "another type": (lambda x: x.astype("f8"), None, r"got float64 .*return that type, or declare"),
    "another shape": (lambda x: x[:, :1], None, r"got float32 \(2, 1\).*return rows of that shape"),
    "ragged": ([[1, 2], [3]], None, r"got a list of 2 \(list\)"),
    "a number that is no whole one": ([1.5, 2.5], port("y", "int64", "()"), "expected int64"),
    "nothing": (None, None, "got NoneType"),
    "no text": ([1, 2], port("y", "string", "()"), r"got a list of 2 \(int\); expected string"),
    "a number among text": (["a", 1], port("y", "string", "()"), r"got a list of 2 \(int, str\)"),
    "ragged text": ([["a"], ["b", "c"]], port("y", "string"), r"got a list of 2 \(list\)"),
    "too large for int8": ([300, 1], port("y", "int8", "()"), "expected int8"),
    "too large for int64": ([2**63, 1], port("y", "int64", "()"), "expected int64"),
    "too large for float16": ([1e30, 1.0], port("y", "float16", "()"), "expected float16"),
    "another output": ({"z": [1, 2]}, None, r"got the outputs \['z'\].*outputs \['y'\]"),
    "one of two": ([1, 2], port("y", "int64") + port("z", "int64"), r"expected \{output: rows\}"),
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_wrong_result_is_an_error_that_says_what_is_expected(path, monkeypatch, name):
    value, outputs, message = RESULTS[name]
    cls = returning(value, outputs)
    monkeypatch.setattr(f"{__name__}.Returned", cls, raising=False)
    engine = find_engine(f"{HERE}Returned")
    model = engine.load(LoadRequest(path))
    with pytest.raises(EngineError, match=message):
        model.run({"x": np.zeros((2, 2), np.float32)})


@pytest.mark.parametrize(
    ("value", "outputs", "expected"),
    [
        ([[1, 2], [3, 4]], None, np.float32([[1, 2], [3, 4]])),
        (np.array(["a", "bc"]), port("y", "string", "()"), np.array(["a", "bc"], object)),
        ({"y": [1, 2]}, port("y", "uint8"), np.uint8([1, 2])),
        ([b"a\0", "\xe9\0"], port("y", "string", "()"), np.array([b"a\0", "\xe9\0"], object)),
        ([np.str_("a"), "b"], port("y", "string", "()"), np.array(["a", "b"], object)),
        ([-128, 127], port("y", "int8"), np.int8([-128, 127])),
        ([float("inf"), 0.1], port("y", "float32"), np.float32([np.inf, 0.1])),
        ([True, False], port("y", "bool"), np.array([True, False])),
    ],
)
def test_rows_are_arrays_lists_or_a_mapping(path, monkeypatch, value, outputs, expected):
    monkeypatch.setattr(f"{__name__}.Returned", returning(value, outputs), raising=False)
    model = find_engine(f"{HERE}Returned").load(LoadRequest(path))
    found = model.run({"x": np.zeros((2, 2), np.float32)})["y"]
    assert found.dtype == expected.dtype
    assert found.tolist() == expected.tolist()


class Failing(Affine):
    def load(self, path, device):
        raise KeyError("weights")


class NoPredict(modelflow.PythonModel):
    inputs = outputs = port("x")


class NoPorts(Affine):
    outputs = ()


class TwoPorts(Affine):
    inputs = port("x") + port("x")


class OddPort(Affine):
    inputs = port("x", "float33", "(2,)")


class OddShape(Affine):
    inputs = port("x", "float32", "four numbers")


class NoTuple(Affine):
    (inputs,) = port("x")


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        ("no_such_module:Iris", "cannot import 'no_such_module'.*next to the graph or the unit"),
        (f"{HERE}Afine", "has no 'Afine'; did you mean 'Affine'"),
        (f"{HERE}HERE", "expected a subclass of modelflow.PythonModel"),
        (f"{HERE}NoPredict", "the class lacks load, predict"),
        (f"{HERE}NoPorts", r"NoPorts\.outputs: got \(\); expected a tuple of ports"),
        (f"{HERE}NoTuple", r"NoTuple\.inputs: got Port\(.*expected a tuple of ports"),
        (f"{HERE}TwoPorts", r"TwoPorts\.inputs: got two ports 'x'; expected different names"),
        (f"{HERE}OddPort", r"OddPort\.inputs: port 'x': got dtype='float33'; expected a type"),
        (f"{HERE}OddShape", r"OddShape\.inputs: port 'x': got shape='four numbers'; expected the"),
    ],
)
def test_a_wrong_class_is_named_with_what_is_expected(path, engine, message):
    with pytest.raises(EngineError, match=message):
        read_model_file(path, engine=engine)


def test_a_failing_load_names_the_class_and_the_cause(path):
    with pytest.raises(FlowFailed) as failed, model_of(path, Failing):
        pass
    assert re.search(r"Failing' failed in load: KeyError: 'weights'", str(failed.value.exceptions))


def test_a_device_that_the_class_does_not_name_is_refused(path):
    request = LoadRequest(path, modelflow.Device("cuda", 0))
    with pytest.raises(EngineError, match=r"runs on cpu; got the device cuda:0"):
        find_engine(f"{HERE}Affine").load(request)


CLASS = """
import modelflow


class Scale(modelflow.PythonModel):
    inputs = (modelflow.Port("x", dtype="float32", shape="(2,)"),)
    outputs = (modelflow.Port("y", dtype="float32", shape="(2,)"),)

    def load(self, path, device):
        self.factor = float(path.read_text())

    def predict(self, x):
        return x * x.dtype.type(self.factor)
"""
UNIT = """
[base]
name = "scale"
type = "inference"
virtual_type = "{}"
entry = "factor.txt"
device = "cpu"
version = "1.0.0"
description = "Scales."
[input.input1]
name = "x"
type = "float"
[output.output1]
name = "{}"
type = "float"
"""


def write_unit(folder, virtual_type="scaling:Scale", output="y"):
    folder.mkdir()
    (folder / "scaling.py").write_text(CLASS)
    (folder / "factor.txt").write_text("4")
    (folder / "scale.toml").write_text(UNIT.format(virtual_type, output))
    return folder


GRAPH = """[driver]
dir = ["unit"]
[graph]
graphconf = "digraph g {{ x [type=input] scale [{}] y [type=output] x -> scale -> y }}"
"""


@pytest.mark.parametrize("is_placed", [False, True])
def test_a_unit_file_finds_the_class_in_its_folder(tmp_path, is_placed):
    write_unit(tmp_path / "unit")
    graph = tmp_path / "graph.toml"
    graph.write_text(GRAPH.format("flowunit=scale, placement=far") + "[placement.far]\n")
    source = place_nodes(str(graph), ProcessEngine()) if is_placed else graph
    with modelflow.Flow(source) as flow:
        assert flow.infer(np.float32([1, 2])).data.tolist() == [4, 8]


def test_an_edited_class_runs_in_the_next_flow(tmp_path):
    folder = write_unit(tmp_path / "unit")
    graph = tmp_path / "graph.toml"
    graph.write_text(GRAPH.format("flowunit=scale"))
    for factor in (1, -1):
        (folder / "scaling.py").write_text(CLASS.replace("float(", f"{factor} * float("))
        with modelflow.Flow(graph) as flow:
            assert flow.infer(np.float32([1, 2])).data.tolist() == [4 * factor, 8 * factor]


@pytest.mark.parametrize(
    ("virtual_type", "message"),
    [
        ("scaling:Scal", r"\[base\] virtual_type: scaling.py has no class 'Scal'; did you mean"),
        ("scalin:Scale", r"\[base\] virtual_type: there is no scalin.py; did you mean 'scaling'"),
        ("scaling:", r"\[base\] virtual_type: scaling.py has no class ''"),
    ],
)
def test_a_unit_file_that_names_no_class_is_a_mistake(tmp_path, virtual_type, message):
    folder = write_unit(tmp_path / "unit", virtual_type)
    with pytest.raises(ConfigError, match=message):
        modelflow.Model(folder)


def test_a_port_that_the_class_does_not_declare_is_named_with_those_there_are(tmp_path):
    folder = write_unit(tmp_path / "unit", output="z")
    with pytest.raises(FlowFailed) as failed, modelflow.Model(folder):
        pass
    assert "no output 'z'; the model's outputs are: y (float32 (?, 2))" in str(
        failed.value.exceptions
    )


def write_beside(folder, factor):
    """Writes a graph whose class is next to the graph, and not next to the unit file."""
    write_unit(folder / "unit", "beside_scaling:Scale")
    text = (folder / "unit" / "scaling.py").read_text()
    (folder / "unit" / "scaling.py").unlink()
    (folder / "beside_scaling.py").write_text(text.replace("float(", f"{factor} * float("))
    graph = folder / "graph.toml"
    graph.write_text(GRAPH.format("flowunit=scale"))
    return graph


@pytest.fixture
def search_path(monkeypatch):
    """Restores the search path and the imported modules."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield sys.path
    sys.modules.pop("beside_scaling", None)


def test_a_class_beside_the_graph_is_packed_with_it(tmp_path, search_path):
    (tmp_path / "made").mkdir()
    graph = write_beside(tmp_path / "made", 2)
    run_here(("pack", str(graph), "-o", str(tmp_path / "scale.mfz")), env={}, check=True)
    (tmp_path / "made").rename(tmp_path / "gone")
    with modelflow.Flow(tmp_path / "scale.mfz") as flow:
        assert flow.infer(np.float32([1, 2])).data.tolist() == [8, 16]


def test_two_classes_of_one_name_beside_two_graphs_are_refused(tmp_path, search_path):
    graphs = []
    for place in ("one", "other"):
        (tmp_path / place).mkdir()
        graphs.append(write_beside(tmp_path / place, len(place)))
        look_beside(graphs[-1])
    with modelflow.Flow(graphs[0]) as flow:
        assert flow.infer(np.float32([1, 2])).data.tolist() == [12, 24]
    with pytest.raises(ConfigError, match="'beside_scaling' next to the graph is not the one"):
        modelflow.Flow(graphs[1])
