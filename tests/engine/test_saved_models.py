"""Tests of SavedModels in TensorFlow Serving's way: names and types are checked, shapes are not."""

import sys

import numpy as np
import pytest

from modelflow import Model
from modelflow.engine.engine import LoadRequest
from modelflow.engine.tensorflow.engine import TensorFlowEngine
from modelflow.engine.tensorflow.settings import TensorFlowOptions
from modelflow.errors import FlowUnitError
from tests.programs import run


@pytest.fixture(scope="module")
def several(tf, tmp_path_factory):
    """Saves signatures: affine, with a scalar input, incrementing a counter, reading a counter."""

    class Several(tf.Module):
        def __init__(self):
            super().__init__()
            self.count = tf.Variable(0.0)

        @tf.function(input_signature=[tf.TensorSpec([None, 1], tf.float32, "x")])
        def half_plus_two(self, x):
            return {"y": x * 0.5 + 2}

        @tf.function(
            input_signature=[
                tf.TensorSpec([None], tf.float32, "x"),
                tf.TensorSpec([], tf.float32, "k"),
            ]
        )
        def scaled(self, x, k):
            return {"y": x * k}

        @tf.function(input_signature=[tf.TensorSpec([], tf.float32, "delta")])
        def increment(self, delta):
            self.count.assign_add(delta)
            return {"output": self.count.read_value()}

        @tf.function(input_signature=[])
        def get(self):
            return {"output": self.count.read_value()}

    module, path = Several(), tmp_path_factory.mktemp("several") / "model"
    names = ("half_plus_two", "scaled", "increment", "get")
    tf.saved_model.save(
        module, str(path), signatures={name: getattr(module, name) for name in names}
    )
    return path


@pytest.fixture(scope="module")
def half_plus_three(tf, tmp_path_factory):
    """Writes a model of TensorFlow 1, with reference variables and an input of any rank."""
    v1, path = tf.compat.v1, tmp_path_factory.mktemp("three") / "model"
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(v1.float32, name="x")
        a = v1.get_variable("a", initializer=0.5, use_resource=False)
        b = v1.get_variable("b", initializer=3.0, use_resource=False)
        y = v1.add(a * x, b, name="y")
        with v1.Session(graph=graph) as session:
            session.run(v1.global_variables_initializer())
            v1.saved_model.simple_save(session, str(path), {"x": x}, {"y": y})
    return path


@pytest.mark.parametrize("value", [4.0, [4.0], [[4.0, 6.0]], np.ones((2, 3), np.float32)])
def test_values_of_any_shape_that_the_graph_takes(several, value):
    with Model(several, signature="half_plus_two") as model:
        (answer,) = model.infer([value])
    np.testing.assert_allclose(answer.data, np.asarray(value) * 0.5 + 2)


def test_unlike_shapes_do_not_share_a_call(several):
    values = [[1.0], 2.0, [[5.0]], 6.0]
    with Model(several, signature="half_plus_two", batch_size=4) as model:
        (column,) = model.infer_batch([values])
    for value, answer in zip(values, column, strict=True):
        np.testing.assert_allclose(answer.data, np.asarray(value) * 0.5 + 2)


def test_a_graph_that_takes_no_such_rank_refuses_the_item(tf, tmp_path):
    class Convolution(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None, 8, 8, 1], tf.float32, "x")])
        def __call__(self, x):
            return {"y": tf.nn.relu(tf.nn.conv2d(x, tf.ones((3, 3, 1, 2)), 1, "SAME"))}

    tf.saved_model.save(Convolution(), str(tmp_path / "model"))
    with Model(tmp_path / "model") as model:
        with pytest.raises(FlowUnitError, match=r"expected float32 \(8, 8, 1\)") as caught:
            model.infer([np.ones((3, 3), np.float32)])
        (answer,) = model.infer([np.ones((8, 8, 1), np.float32)])
    assert caught.value.is_refusal
    assert answer.data.shape == (8, 8, 2)


def test_a_scalar_input_separates_the_calls(several):
    with Model(several, inputs=["x", "k"], signature="scaled", batch_size=4) as model:
        (column,) = model.infer_batch([[1.0, 2.0, 3.0], [2.0, 3.0, 2.0]])
    assert [float(answer.data) for answer in column] == [2, 6, 6]


def test_a_model_that_counts_goes_on_counting_and_is_not_warmed_up(several):
    with Model(several, signature="increment", batch_size=4) as model:
        answers = [float(model.infer([delta])[0].data) for delta in (1.0, 2.0, 4.0)]
    assert answers == [1, 3, 7]


def test_a_signature_without_inputs_is_called_with_nothing(several):
    with Model(several, signature="get", batch_size=4) as model:
        assert model.inputs == ()
        for nothing in ({}, []):
            assert [float(answer.data) for answer in model.infer(nothing)] == [0]
        with pytest.raises(ValueError, match="got 1 values; expected a value for each input"):
            model.infer([1.0])
        with pytest.raises(ValueError, match="takes no inputs"):
            model.infer_batch([])


def test_a_model_with_a_table_and_a_variable_is_called_with_batches(tf, tmp_path):
    module = tf.Module()
    keys = tf.lookup.KeyValueTensorInitializer([0], [2.0], tf.int64, tf.float32)
    module.table, module.one = tf.lookup.StaticHashTable(keys, 0.0), tf.Variable(1.0)

    # The operation that restores the variable assigns the variable, and is no part of the
    # signature.
    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, "x")])
    def line(x):
        return {"y": x * module.table.lookup(tf.constant(0, tf.int64)) + module.one}

    tf.saved_model.save(module, str(tmp_path / "model"), {"serving_default": line})
    with Model(tmp_path / "model", batch_size=4) as model:
        (column,) = model.infer_batch([[1.0, 2.0, 3.0, 4.0]])
    assert [answer.data.tolist() for answer in column] == [3, 5, 7, 9]  # rows, not whole outputs
    loaded = TensorFlowEngine().load(LoadRequest(tmp_path / "model", options=TensorFlowOptions()))
    loaded.close()
    assert not loaded.is_stateful


def write_twice_of_tensorflow_1(tf, path):
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(v1.float32, [None])
        v1.saved_model.simple_save(session, path, {"x": x}, {"x": 2 * x})


def write_twice_with_a_table(tf, path):
    module = tf.Module()
    keys = tf.lookup.KeyValueTensorInitializer([0], [2.0], tf.int64, tf.float32)
    module.table = tf.lookup.StaticHashTable(keys, 0.0)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, "x")])
    def twice(x):
        return {"x": x * module.table.lookup(tf.constant(0, tf.int64))}

    tf.saved_model.save(module, path, {"serving_default": twice})


@pytest.mark.parametrize("write", [write_twice_of_tensorflow_1, write_twice_with_a_table])
def test_an_output_may_have_the_name_of_an_input(tf, tmp_path, write):
    write(tf, str(tmp_path / "model"))
    with Model(tmp_path / "model") as model:
        (answer,) = model.infer([3.0])
    assert float(answer.data) == 6


def test_a_stateful_keras_model_keeps_its_state(tf, tmp_path):
    keras = tf.keras
    model = keras.Sequential(
        [keras.Input(batch_shape=(1, 2, 1)), keras.layers.LSTM(1, stateful=True)]
    )
    path = tmp_path / "lstm.keras"
    model.save(path)
    item = np.ones((2, 1), np.float32)
    expected = [model.predict(item[np.newaxis], verbose=0)[0] for _ in range(2)]
    with Model(path) as served:
        answers = [served.infer([item])[0].data for _ in range(2)]
    np.testing.assert_allclose(answers, expected, rtol=1e-5)


def test_reference_variables_of_tensorflow_1(half_plus_three):
    with Model(half_plus_three, batch_size=4) as model:
        (column,) = model.infer_batch([[1.0, 2.0, 5.0]])
    assert [float(answer.data) for answer in column] == [3.5, 4.0, 5.5]


def test_a_forked_process_is_told_that_tensorflow_ran_before(half_plus_three):
    program = f"""
import os
from modelflow import Model

Model({str(half_plus_three)!r}).start().stop()
child = os.fork()
if child == 0:
    try:
        Model({str(half_plus_three)!r})
    except Exception as error:
        print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""
    done = run([sys.executable, "-W", "ignore", "-c", program])
    assert "where TensorFlow has run" in done.stdout
