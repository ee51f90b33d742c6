"""Tiny real models, made once a session."""

import numpy as np
import pytest

from modelflow.engine.tensorflow.library import load_tensorflow


def pytest_configure(config):
    # Keras's variables do not support NumPy 2's copy argument yet, which tests meet when they make
    # a model.
    config.addinivalue_line(
        "filterwarnings", "ignore:__array__ implementation doesn't accept:DeprecationWarning"
    )
    # Users have TorchScript models, and the tests must make them.
    config.addinivalue_line("filterwarnings", "ignore:.torch.jit:DeprecationWarning")


WEIGHTS = np.array([[1, 0, 2], [0, 1, -1], [3, 0, 0], [0, 0, 1]], np.float32)
BIAS = np.array([0.5, 0, -0.5], np.float32)


def expected(item):
    """Returns the output of every model here for one item of 4 numbers."""
    return np.asarray(item, np.float32) @ WEIGHTS + BIAS


@pytest.fixture(scope="session")
def tf():
    return load_tensorflow()


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


def freeze(tf, path, build):
    """Writes the graph that ``build`` makes as a frozen graph."""
    with tf.Graph().as_default() as graph:
        build(tf.compat.v1)
        path.write_bytes(graph.as_graph_def().SerializeToString())
    return path


@pytest.fixture(scope="session")
def frozen_graph(tf, models):
    def build(v1):
        x = v1.placeholder(v1.float32, [None, 4], "net/in")
        v1.add(v1.matmul(x, WEIGHTS), BIAS, name="net/scores/Add")

    return freeze(tf, models / "frozen.pb", build)


@pytest.fixture(scope="session")
def two_ports(tf, models):
    """Writes a model with the sum and the difference of two inputs, and the sum on two outputs."""

    def build(v1):
        a = v1.placeholder(v1.float32, [None, None], "a")
        b = v1.placeholder(v1.float32, [None, None], "b")
        v1.add(a, b, name="sum")
        v1.subtract(a, b, name="difference")
        v1.identity(a, name="same")
        v1.reduce_sum(a, name="total")

    return freeze(tf, models / "two.pb", build)


@pytest.fixture(scope="session")
def fixed_batch(tf, models):
    """Returns a model for batches of 3, with the outputs each item and the batch's maximum."""

    def build(v1):
        x = v1.placeholder(v1.float32, [3, 2], "x")
        v1.multiply(x, 2.0, name="twice")

    return freeze(tf, models / "fixed.pb", build)


@pytest.fixture(scope="session")
def saved_model(tf, models):
    module = tf.Module()
    module.weights = tf.Variable(WEIGHTS)

    def affine(features):
        return {"scores": features @ module.weights + BIAS, "again": features}

    def negative(features):
        return {"scores": -(features @ module.weights + BIAS)}

    spec = tf.TensorSpec((None, 4), tf.float32, name="features")
    functions = {
        "serving_default": tf.function(affine).get_concrete_function(spec),
        "negative": tf.function(negative).get_concrete_function(spec),
    }
    path = models / "saved_model"
    tf.saved_model.save(module, str(path), signatures=functions)
    return path


@pytest.fixture(scope="session")
def text_model(tf, models):
    """Returns a model with a lookup table, which cannot be frozen."""
    module = tf.Module()
    keys = tf.constant(["cat", "dog"])
    module.table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(keys, tf.constant([1, 2], tf.int64)), -1
    )

    def look_up(word):
        return {"number": module.table.lookup(word), "loud": tf.strings.upper(word)}

    spec = tf.TensorSpec((None,), tf.string, name="word")
    path = models / "text"
    functions = {"look_up": tf.function(look_up).get_concrete_function(spec)}
    tf.saved_model.save(module, str(path), signatures=functions)
    return path


@pytest.fixture(scope="session")
def version_1_model(tf, models):
    """Writes a SavedModel of TensorFlow 1, with variables and an inner tensor."""
    v1 = tf.compat.v1
    path = models / "version_1"
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 4], "x")
        weights = v1.get_variable("w", initializer=WEIGHTS, use_resource=False)
        hidden = v1.identity(v1.matmul(x, weights), "hidden")
        scores = v1.add(hidden, BIAS, name="y")
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, str(path), {"features": x}, {"scores": scores})
    return path


def keras_network(tf):
    keras = tf.keras
    image = keras.Input((4,), name="features")
    dropped = keras.layers.Dropout(0.9)(image)
    dense = keras.layers.Dense(3, name="scores")
    network = keras.Model(image, dense(dropped))
    dense.set_weights([WEIGHTS, BIAS])
    return network


@pytest.fixture(scope="session")
def keras_model(tf, models):
    path = models / "network.keras"
    keras_network(tf).save(path)
    return path


@pytest.fixture(scope="session")
def h5_model(tf, models):
    path = models / "network.h5"
    keras_network(tf).save(path)
    return path


def save_onnx(path, nodes, inputs, outputs, constants=None):
    """Writes an ONNX graph of float32 ports: name -> shape, with text for a free axis."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    def ports(values):
        return [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in values.items()]

    graph = helper.make_graph(
        [helper.make_node(*node) for node in nodes],
        "net",
        ports(inputs),
        ports(outputs),
        [numpy_helper.from_array(value, name) for name, value in (constants or {}).items()],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), str(path))
    return path


@pytest.fixture(scope="session")
def onnx_model(models):
    nodes = [("MatMul", ["features", "w"], ["hidden"]), ("Add", ["hidden", "b"], ["scores"])]
    return save_onnx(
        models / "net.onnx",
        nodes,
        {"features": ["n", 4]},
        {"scores": ["n", 3]},
        {"w": WEIGHTS, "b": BIAS},
    )


@pytest.fixture(scope="session")
def torch():
    from modelflow.device.torch_memory import load_torch

    return load_torch()


@pytest.fixture(scope="session")
def torch_network(torch):
    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.dense = torch.nn.Linear(4, 3)

        def forward(self, features):
            return self.dense(features)

    network = Network().eval()
    with torch.no_grad():
        network.dense.weight.copy_(torch.from_numpy(WEIGHTS.T.copy()))
        network.dense.bias.copy_(torch.from_numpy(BIAS))
    return network


@pytest.fixture(scope="session")
def torchscript_model(torch, torch_network, models):
    path = models / "net.pt"
    torch.jit.save(torch.jit.trace(torch_network, torch.zeros(2, 4)), str(path))
    return path


@pytest.fixture(scope="session")
def exported_model(torch, torch_network, models):
    path = models / "net.pt2"
    shapes = {"features": {0: torch.export.Dim("batch", min=1, max=1024)}}
    program = torch.export.export(torch_network, (torch.zeros(2, 4),), dynamic_shapes=shapes)
    torch.export.save(program, str(path))
    return path
