"""Tests that the signatures of a SavedModel loaded together share one set of variables."""

import shutil

import numpy as np
import pytest

from modelflow.engine.engine import LoadGroup, LoadRequest
from modelflow.engine.tensorflow.engine import TensorFlowEngine
from modelflow.engine.tensorflow.forms.reached import is_assigned
from modelflow.engine.tensorflow.forms.signature import read_signature
from modelflow.engine.tensorflow.settings import TensorFlowOptions
from modelflow.errors import EngineError


def write_reference_counter(tf, path, start):
    """Writes three counters of TensorFlow 1, and a line that uses another variable."""
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        count = v1.get_variable("count", initializer=[start] * 3, use_resource=False)
        slope = v1.get_variable("slope", initializer=2.0, use_resource=False)
        x = v1.placeholder(v1.float32, [None], name="x")
        delta = v1.placeholder(v1.float32, name="delta")
        outputs = {
            "get": ({}, tf.identity(count)),
            "increment": ({}, count.assign_add([1.0] * 3)),
            "add": ({"delta": delta}, tf.reduce_sum(count.assign_add(delta + [0.0] * 3))),
            "line": ({"x": x}, slope * x),
        }
        info = v1.saved_model.utils.build_tensor_info
        signatures = {
            name: v1.saved_model.signature_def_utils.build_signature_def(
                {key: info(tensor) for key, tensor in inputs.items()}, {"output": info(output)}
            )
            for name, (inputs, output) in outputs.items()
        }
        session.run(v1.global_variables_initializer())
        builder = v1.saved_model.builder.SavedModelBuilder(str(path))
        builder.add_meta_graph_and_variables(session, ["serve"], signatures)
        builder.save()


def write_counter(tf, path, start):
    """Writes the same counters with functions."""
    module = tf.Module()
    module.count, module.slope = tf.Variable([start] * 3), tf.Variable(2.0)

    def saved(function, *inputs):
        def output(*values):
            return {"output": function(*values)}

        return tf.function(output, inputs, autograph=False).get_concrete_function()

    signatures = {
        "get": saved(module.count.read_value),
        "increment": saved(lambda: module.count.assign_add([1.0] * 3)),
        "add": saved(
            lambda delta: tf.reduce_sum(module.count.assign_add(delta + [0.0] * 3)),
            tf.TensorSpec([], tf.float32, "delta"),
        ),
        "line": saved(lambda x: module.slope * x, tf.TensorSpec([None], tf.float32, "x")),
    }
    tf.saved_model.save(module, str(path), signatures)


@pytest.fixture(params=[write_reference_counter, write_counter], ids=["tensorflow 1", "functions"])
def write(request, tf):
    return lambda path, start: request.param(tf, path, start)


@pytest.fixture
def path(write, tmp_path):
    write(tmp_path / "model", 0.0)
    return tmp_path / "model"


@pytest.fixture
def load(path):
    """Loads a signature; the test's end closes the loaded model."""
    loaded = []

    def load(key, group):
        loaded.append(load_signature(path, key, group))
        return loaded[-1]

    yield load
    for model in loaded:
        model.close()


def load_signature(path, key, group, **options):
    request = LoadRequest(path, options=TensorFlowOptions(signature=key, **options), group=group)
    return TensorFlowEngine().load(request)


def output_of(model, **inputs):
    return model.run(inputs)["output"].tolist()


def test_signatures_of_a_group_see_what_the_others_assign(load):
    group = LoadGroup()
    get, increment = load("get", group), load("increment", group)
    assert output_of(get) == [0, 0, 0]
    assert output_of(increment) == output_of(get) == [1, 1, 1]
    late = load("add", group)
    output_of(late, delta=np.float32(1))
    assert output_of(get) == [2, 2, 2]


def test_groups_share_nothing_and_a_model_alone_has_its_own(load):
    first, second = LoadGroup(), LoadGroup()
    output_of(load("increment", first))
    output_of(load("increment", None))
    assert output_of(load("get", first)) == [1, 1, 1]
    assert output_of(load("get", second)) == output_of(load("get", None)) == [0, 0, 0]


def test_the_last_that_closes_ends_it_and_the_next_reads_the_disk(load, path, write):
    group = LoadGroup()
    get, increment = (load_signature(path, key, group) for key in ("get", "increment"))
    output_of(increment)
    increment.close()
    assert output_of(get) == [1, 1, 1]
    get.close()
    shutil.rmtree(path)
    write(path, 5.0)
    assert output_of(load("get", group)) == [5, 5, 5]


def test_results_do_not_change_when_the_variable_does(load):
    group = LoadGroup()
    get, increment = load("get", group), load("increment", group)
    before, after = get.run({})["output"], increment.run({})["output"]
    increment.run({})
    assert (before.tolist(), after.tolist()) == ([0, 0, 0], [1, 1, 1])


@pytest.mark.parametrize(
    ("key", "expected"), [("get", True), ("increment", True), ("add", True), ("line", False)]
)
def test_only_what_uses_an_assigned_variable_stays_with_its_variables(path, key, expected):
    assert is_assigned(read_signature(path, key).meta_graph, key) is expected


def test_a_signature_that_does_not_load_leaves_the_others_their_session(load, path):
    group = LoadGroup()
    get = load("get", group)
    with pytest.raises(EngineError, match="xla=true"):
        load_signature(path, "increment", group, xla=True)
    assert output_of(get) == [0, 0, 0]
