"""Tests of the engine's calls: sizes, padding, shapes, halves, and the counters."""

import dataclasses
import os
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import modelflow
from modelflow.buffer import Buffer
from modelflow.device import host_pool
from modelflow.engine import Engine, LoadedModel, ModelFile, TensorSpec, lookup, read_model_file
from modelflow.engine.batching import CallSizes
from modelflow.engine.inference import inference_spec
from modelflow.engine.options import InferenceOptions
from modelflow.errors import (
    ConfigError,
    EngineError,
    FlowFailed,
    FlowUnitError,
    GraphError,
    PlanError,
)
from modelflow.testing import run_unit
from modelflow.unit.option import option
from modelflow.unit.unit import Context
from tests.engine.numpy_engine import NumpyEngine


class SumModel(LoadedModel):
    """Sums each item; rejects batches that contain 13, and batches of more than ``most`` items."""

    most = 1 << 30

    def __init__(self, shape):
        self.inputs = (TensorSpec("x", np.dtype(np.float32), shape),)
        self.outputs = (TensorSpec("y", np.dtype(np.float32), (None,), is_batched=True),)
        self.calls = []

    def run(self, inputs):
        x = inputs["x"]
        self.calls.append(x.copy())
        if (x == 13).any():
            message = "13 is not a number that this model likes"
            raise EngineError(message)
        if len(x) > self.most:
            message = f"out of memory with {len(x)} items"
            raise EngineError(message)
        return {"y": x.reshape(len(x), -1).sum(1)}

    def close(self):
        pass


class SumEngine(Engine):
    suffixes = (".sum",)

    def __init__(self):
        self.models, self.requests = [], []

    def load(self, request):
        self.requests.append(request)
        parts = request.path.read_text().split()
        self.models.append(SumModel(tuple(None if p == "?" else int(p) for p in parts)))
        return self.models[-1]


@pytest.fixture
def engine(monkeypatch):
    engine = SumEngine()
    monkeypatch.setitem(lookup.ENGINES.instances, "sum", engine)
    return engine


@pytest.fixture
def opened(engine, tmp_path):
    def make(shape, batch_size=8, allowed=(), **options):
        path = tmp_path / "m.sum"
        path.write_text(shape)
        spec = inference_spec(read_model_file(path, engine="sum"), "sum")
        unit = spec.create("cpu")
        unit.batch_size, unit.allowed_batch_sizes = batch_size, tuple(allowed)
        unit.open(spec.configure({"warmup": "none"} | options))
        return unit, engine.models[-1]

    return make


@pytest.fixture
def served(engine, tmp_path):
    def make(shape="? 2", **options):
        path = tmp_path / "m.sum"
        path.write_text(shape)
        return modelflow.Model(path, engine="sum", warmup="none", **options)

    return make


def call(unit, items):
    context = Context({"x": [Buffer(item) for item in items]}, {"y": []})
    unit.process(context)
    return [
        float(value) if not isinstance(value, Exception) else value
        for value in context.outputs["y"]
    ]


def items(*values, shape=(2,)):
    return [np.full(shape, value, np.float32) for value in values]


def test_batches_are_filled_up_to_the_next_allowed_size(opened):
    unit, model = opened("? 2", allowed=(1, 4, 8))
    assert call(unit, items(1)) == [2]
    assert call(unit, items(1, 2)) == [2, 4]
    assert call(unit, items(*range(5))) == [0, 2, 4, 6, 8]
    assert [len(x) for x in model.calls] == [1, 4, 8]
    assert not model.calls[1][2:].any()
    assert unit.figures() == {
        "engine_calls": {1: 1, 2: 1, 5: 1},
        "batching": {"padding": 5, "another_shape": 0},
    }


@dataclasses.dataclass(frozen=True)
class OfFewSizes(InferenceOptions):
    @property
    def has_few_sizes(self):
        return True


@pytest.mark.parametrize(("allowed", "sizes"), [((), [1, 4, 8, 12]), ((3, 12), [3, 3, 12, 12])])
def test_an_engine_that_prepares_each_size_is_given_few(opened, engine, allowed, sizes):
    engine.options = OfFewSizes
    unit, model = opened("? 2", batch_size=12, allowed=allowed)
    for rows in (1, 3, 5, 9):
        assert call(unit, items(*range(rows))) == [2 * row for row in range(rows)]
    assert [len(x) for x in model.calls] == sizes
    assert engine.requests[-1].batch_sizes == (allowed or (1, 2, 4, 8, 12))


@given(
    fixed=st.none() | st.integers(1, 9),
    allowed=st.lists(st.integers(1, 16), max_size=4),
    rows=st.integers(1, 40),
)
def test_every_row_finds_a_call_of_a_size_that_is_allowed(fixed, allowed, rows):
    sizes, left = CallSizes(fixed, allowed, 16), rows
    while left:
        step = sizes.step(left)
        size = sizes.size(step)
        assert 1 <= step <= size
        assert size in ((fixed and [fixed]) or sorted(allowed) or [step])
        left -= step


def test_warm_up_runs_every_allowed_size(opened):
    _, model = opened("? 2", allowed=(2, 8), warmup="synthetic")
    assert [len(x) for x in model.calls] == [2, 8]


def test_padding_of_a_model_never_reaches_an_output(served):
    with served(batch_size=4, allowed_batch_sizes="4", batch_timeout_ms=0) as model:
        (found,) = model.infer_batch([items(*range(10))])
        assert [float(b.data) for b in found] == [2 * i for i in range(10)]
        assert model.stats().figures["batching"]["padding"] % 4 == 2


def test_mixed_shapes_are_separate_calls_and_counted(opened):
    unit, model = opened("? ?")
    given = [*items(1, 2), *items(3, shape=(3,)), *items(4)]
    assert call(unit, given) == [2, 4, 9, 8]
    assert [x.shape for x in model.calls] == [(3, 2), (1, 3)]
    assert unit.figures()["batching"]["another_shape"] == 1


def test_pad_variable_fills_items_up_to_the_largest(opened):
    unit, model = opened("? ?", pad_variable=True)
    given = [*items(1, shape=(2,)), *items(2, shape=(4,)), *items(3, shape=(3,))]
    assert call(unit, given) == [2, 8, 9]
    np.testing.assert_array_equal(model.calls[0], [[1, 1, 0, 0], [2, 2, 2, 2], [3, 3, 3, 0]])


def test_pad_variable_obeys_the_axes_that_are_fixed(opened):
    unit, _ = opened("? ? 2", pad_variable=True)
    good, bad = items(1, shape=(3, 2)), items(1, shape=(3, 3))
    found = call(unit, [*good, *bad])
    assert found[0] == 6
    assert "got float32 (3, 3); expected float32 (?, 2)" in str(found[1])


@given(count=st.integers(1, 16), guilty=st.sets(st.integers(0, 15), max_size=4))
def test_only_the_guilty_of_a_failed_batch_fail(count, guilty):
    engine = SumEngine()
    given = items(*(13 if i in guilty else i + 20 for i in range(count)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(lookup.ENGINES.instances, "sum", engine)
        model = SumModel((None, 2))
        patch.setattr(engine, "load", lambda request: model)
        spec = inference_spec(
            ModelFile(lookup.Path(__file__), "sum", (modelflow.Port("x"),), (modelflow.Port("y"),)),
            "sum",
        )
        found = run_unit(spec, {"x": given}, warmup="none")["y"]
    for i, result in enumerate(found):
        if i in guilty:
            assert "13 is not a number" in result.get_error_msg()
        else:
            assert float(result.data) == 2 * (i + 20)
    bad = len(guilty & set(range(count)))
    assert len(model.calls) <= 1 + 2 * bad * 4  # halves: 4 levels in 16, two calls each


def test_out_of_memory_is_retried_in_halves_until_it_fits(served, engine):
    with served(batch_size=16, queue_size=64) as model:
        engine.models[-1].most = 4
        (found,) = model.infer_batch([items(*range(20, 36))])
        assert [float(b.data) for b in found] == [2 * i for i in range(20, 36)]
        assert {len(x) for x in engine.models[-1].calls} <= set(range(1, 17))
        assert model.stats().errors == 0


def test_one_item_that_fails_raises_the_engines_error(served):
    with served() as model, pytest.raises(FlowUnitError, match="13 is not a number"):
        model.infer(items(13))


def test_staging_memory_is_not_allocated_in_the_steady_state(served, engine):
    with served("? 64 64", batch_size=4, batch_timeout_ms=0) as model:
        batch = items(*range(4), shape=(64, 64))
        for _ in range(3):
            model.infer_batch([batch])
            engine.models[-1].calls.clear()
        before = host_pool().allocations
        for _ in range(50):
            model.infer_batch([batch])
            engine.models[-1].calls.clear()
        assert host_pool().allocations <= before + 1  # batches of another size class, at most


def test_big_request_does_not_stand_in_the_way_of_small_ones(served, engine):
    """Tests that a big and a small request, waiting for the engine, share the next batch."""
    is_held, go_on = threading.Event(), threading.Event()

    with served(batch_size=8, split_size=4, threads=1) as model:
        loaded = engine.models[-1]
        run = loaded.run

        def held(inputs):
            is_held.set()
            assert go_on.wait(30)
            return run(inputs)

        loaded.run = held
        stream = model._flow.create_stream_io()
        stream.send("in0", items(1)[0])
        assert is_held.wait(30)
        answers = []
        big = threading.Thread(
            target=lambda: answers.append(model.infer_batch([items(*[2] * 100)]))
        )
        big.start()
        while model.stats().queue < 32:  # its first buffers wait
            threading.Event().wait(0.001)
        small = threading.Thread(target=lambda: model.infer(items(3)))
        small.start()
        while model.stats().queue < 101:
            threading.Event().wait(0.001)
        go_on.set()
        big.join()
        small.join()
    first = next(place for place, x in enumerate(loaded.calls) if (x == 3).any())
    assert first == 1
    assert (loaded.calls[first] == 2).any()
    assert [float(b.data) for b in answers[0][0]] == [4] * 100


@pytest.mark.parametrize(
    ("attributes", "what"),
    [
        ({"batch_size": 8, "allowed_batch_sizes": "1,4"}, "the largest is 4, batch_size is 8"),
        ({"cpu_affinity": "0-x"}, "got '0-x'; expected numbers and ranges such as '0-3,6'"),
        ({"cpu_affinity": "4000"}, "got '4000'; this process may use"),
    ],
)
def test_attributes_that_do_not_fit_are_errors_of_the_plan(served, attributes, what):
    with pytest.raises((PlanError, FlowFailed), match=what):
        served(**attributes).start()


def test_largest_allowed_size_is_the_batch_size(served, engine):
    with served(allowed_batch_sizes="2,6", batch_timeout_ms=0) as model:
        model.infer_batch([items(*range(6))])
        assert {len(x) for x in engine.models[-1].calls} <= {2, 6}
        assert model._flow.scheduler.plan.stages["model"].batch_size == 6


def test_serving_names_are_those_of_the_node(served):
    model = served(
        max_batch_size=6, batch_timeout_micros=1500, num_batch_threads=2, max_enqueued_batches=3
    )
    model.start()
    plan = model._flow.scheduler.plan.stages["model"]
    model.stop()
    assert (plan.batch_size, plan.batch_timeout, plan.threads, plan.bounds) == (6, 0.0015, 2, (18,))


def test_statistics_say_why_batches_closed(served):
    with served(batch_size=4) as model:
        for value in range(5):
            model.infer(items(value))
        stats = model.stats()
    assert stats.closed == {"end_of_stream": 5}
    assert stats.wait.count == 5
    assert stats.figures["engine_calls"] == {1: 5}


def test_affinity_is_that_of_the_nodes_threads_alone(served, engine):
    usable = os.sched_getaffinity(0)
    only = min(usable)
    with served(cpu_affinity=str(only)) as model:
        loaded, found = engine.models[-1], []
        run = loaded.run

        def noted(inputs):
            found.append(os.sched_getaffinity(0))
            return run(inputs)

        loaded.run = noted
        model.infer(items(1))
    assert found == [{only}]
    assert os.sched_getaffinity(0) == usable


def test_option_of_another_engine_is_refused(served):
    with pytest.raises(GraphError, match=r"unknown (option|attribute) 'channels_last'"):
        served(channels_last=True).start()


def test_an_engine_of_another_package_declares_options_of_its_own(monkeypatch, tmp_path):
    @dataclasses.dataclass(frozen=True)
    class BeamOptions(InferenceOptions):
        beam_size: int = option(4, help="How many hypotheses are kept.", minimum=1)

    class BeamEngine(NumpyEngine):
        options = BeamOptions

    engine = BeamEngine()
    monkeypatch.setitem(lookup.ENGINES.instances, "beam", engine)
    path = tmp_path / "model.shape"
    path.write_text("? 2")
    spec = inference_spec(read_model_file(path, engine="beam"), "searched")
    assert spec.configure({"beam_size": "7"}).beam_size == 7
    with pytest.raises(ConfigError, match=r"unknown option 'beam_sise'.*did you mean 'beam_size'"):
        spec.configure({"beam_sise": 7})
    with pytest.raises(ConfigError, match="unknown option 'xla'"):
        spec.configure({"xla": True})
