"""Tests that graphs with inlined functions compute the same, with shapes proved by TensorFlow."""

import sys

import numpy as np
import pytest

from modelflow import Model
from modelflow.engine.tensorflow.runners.inlined import inline_calls
from modelflow.errors import FlowUnitError
from tests.programs import run


def run_graph(tf, graph, fetches, x):
    with tf.compat.v1.Session(graph=graph) as session:
        session.run("start")
        return session.run([f"{name}:0" for name in fetches], {"x:0": x})


def test_an_inlined_graph_computes_the_same_and_runs_what_nobody_reads(tf):
    v1 = tf.compat.v1
    inner = tf.function(lambda a, b: (a * b, a - b), autograph=False)

    def outer(a, handle):
        with tf.control_dependencies([tf.raw_ops.AssignAddVariableOp(resource=handle, value=1.0)]):
            product, difference = inner(a, tf.constant([2.0]))
        return difference, product, a

    with tf.Graph().as_default() as graph:
        x = v1.placeholder(v1.float32, [None], name="x")
        variable = v1.get_variable("v", initializer=5.0, use_resource=True)
        v1.group(variable.initializer, name="start")
        results = tf.function(outer, autograph=False)(x, variable.handle)
        names = ["first", "second", "third"]
        for name, result in zip(names, results, strict=True):
            tf.identity(result, name=name)
        with tf.control_dependencies(results):
            tf.raw_ops.ReadVariableOp(resource=variable.handle, dtype=v1.float32, name="read")
        inlined = inline_calls(graph, [*names, "read", "start"])
    assert not {"PartitionedCall", "StatefulPartitionedCall"} & {node.op for node in inlined.node}
    with tf.Graph().as_default() as other:
        tf.graph_util.import_graph_def(inlined, name="")
    found = run_graph(tf, other, [*names, "read"], [3.0, 4.0])
    expected = [[1.0, 2.0], [6.0, 8.0], [3.0, 4.0], 6.0]
    for given in (found, run_graph(tf, graph, [*names, "read"], [3.0, 4.0])):
        for value, wanted in zip(given, expected, strict=True):
            np.testing.assert_array_equal(value, np.float32(wanted))


def test_a_function_that_runs_in_a_loop_is_not_inlined(tf):
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [None], name="x")
        loop = tf.function(lambda a: tf.while_loop(lambda b: b[0] < 9, lambda b: [b * 2], [a])[0])
        tf.identity(loop(x), name="y")
    assert inline_calls(graph, ["y"]) is None


# A table prevents the freezing of the model. The convolution ends the process for a wrong rank.
WRITE = """
import sys, tensorflow as tf
module = tf.Module()
keys = tf.lookup.KeyValueTensorInitializer([0], [2.0], tf.int64, tf.float32)
module.table = tf.lookup.StaticHashTable(keys, 0.0)

@tf.function(input_signature=[tf.TensorSpec([None, 8, 8, 1], tf.float32, "x")])
def call(x):
    weights = tf.ones((3, 3, 1, 2)) * module.table.lookup(tf.constant(0, tf.int64))
    y = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, weights, 1, "SAME"), [0.5, 0.5]))
    return {"y": y}

tf.saved_model.save(module, sys.argv[1], {"serving_default": call})
"""


@pytest.fixture(scope="module")
def convolution(tmp_path_factory):
    path = tmp_path_factory.mktemp("convolution") / "model"
    done = run([sys.executable, "-W", "ignore", "-c", WRITE, str(path)])
    assert done.returncode == 0, done.stderr
    return path


def test_a_model_of_functions_refuses_a_rank_that_it_does_not_take(convolution):
    with Model(convolution) as model:
        with pytest.raises(FlowUnitError, match=r"expected float32 \(8, 8, 1\)") as caught:
            model.infer([np.ones((3, 3), np.float32)])
        (answer,) = model.infer([np.ones((8, 8, 1), np.float32)])
        (other,) = model.infer([np.ones((5, 6, 1), np.float32)])
    assert caught.value.is_refusal
    assert (answer.data.shape, answer.data[0, 0, 0]) == ((8, 8, 2), 8.5)
    assert other.data.shape == (5, 6, 2)
