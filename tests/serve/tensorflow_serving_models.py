"""The example models of TensorFlow Serving, built again: ``python -m ... FOLDER`` writes them all.

Each model is in a folder of its name, as version 123 and with the signatures of the original.
"""

import contextlib
import sys
import tempfile
from pathlib import Path

from tests.serve.half_plus_two import CLASSIFY, REGRESS, tensorflow

__all__ = ["MODELS", "write"]

ANIMALS = ("cat", "dog", "bird")


def write(folder, name):
    """Writes a model; returns its folder, which holds the version 123."""
    MODELS[name](str(folder / name / "00000123"))
    return folder / name


def half_plus_two(path):
    """Writes y = x/2 + 2, y2 = x/2 + 3 and y3 = x2/2 + 3, with variables of TensorFlow 1."""
    write_lines(path, use_resource=False)


def half_plus_two_cpu(path):
    """Writes the same with today's variables, bound to the CPU."""
    with tensorflow().device("/cpu:0"):
        write_lines(path, use_resource=True)


def write_lines(path, use_resource):
    """Writes the lines from a graph that reads ``x`` from examples and not from a placeholder."""
    v1 = tensorflow().compat.v1
    with v1.Graph().as_default(), v1.Session() as session:
        a, b, c = (
            v1.Variable(value, name=name, use_resource=use_resource)
            for name, value in {"a": 0.5, "b": 2.0, "c": 3.0}.items()
        )
        examples = v1.placeholder(v1.string, [None], name="tf_example")
        parsed = v1.parse_example(examples, features())
        x, x2 = (v1.identity(parsed[name], name=name) for name in ("x", "x2"))
        y = v1.identity(a * x + b, name="y")
        y2 = v1.identity(a * x + c, name="y2")
        y3 = v1.identity(a * x2 + c, name="y3")
        signatures = {
            "serving_default": signature({"x": x}, {"y": y}),
            "regress_x_to_y": signature({"inputs": examples}, {"outputs": y}, REGRESS),
            "regress_x_to_y2": signature({"inputs": examples}, {"outputs": y2}, REGRESS),
            "regress_x2_to_y3": signature({"inputs": x2}, {"outputs": y3}, REGRESS),
            "classify_x_to_y": signature({"inputs": examples}, {"scores": y}, CLASSIFY),
            "classify_x2_to_y3": signature({"inputs": x2}, {"scores": y3}, CLASSIFY),
        }
        save(session, path, signatures)


def half_plus_two_tf2(path):
    """Writes the same with functions; the shape of their ``x`` is (1,), as in the original."""
    tf = tensorflow()
    module = tf.Module()
    module.a, module.b, module.c = tf.Variable(0.5), tf.Variable(2.0), tf.Variable(3.0)
    one, many = tf.TensorSpec([1], tf.float32), tf.TensorSpec([None], tf.string, "inputs")

    def of_numbers(output, plus, name="inputs"):
        function = tf.function(lambda x: {output: module.a * x + plus}, autograph=False)
        return function.get_concrete_function(tf.TensorSpec(one.shape, one.dtype, name))

    def of_examples(output, plus):
        def line(inputs):
            return {output: module.a * tf.io.parse_example(inputs, features())["x"] + plus}

        return tf.function(line, input_signature=[many]).get_concrete_function()

    found = {
        "serving_default": of_numbers("y", module.b, "x"),
        "regress_x_to_y": of_examples("outputs", module.b),
        "regress_x_to_y2": of_examples("outputs", module.c),
        "regress_x2_to_y3": of_numbers("outputs", module.c),
        "classify_x_to_y": of_examples("scores", module.b),
        "classify_x2_to_y3": of_numbers("scores", module.c),
    }
    tf.saved_model.save(module, path, found)
    # TensorFlow 2 saves every function with the method predict.
    updater = tf.compat.v1.saved_model.signature_def_utils.MethodNameUpdater(path)
    for name in found.keys() - {"serving_default"}:
        updater.replace_method_name(name, REGRESS if name.startswith("regress") else CLASSIFY)
    updater.save()


def features():
    """Returns the features to parse from an example: "x", and the optional "x2"."""
    tf = tensorflow()
    lacking = tf.io.FixedLenFeature([1], tf.float32, default_value=[0.0])
    return {"x": tf.io.FixedLenFeature([1], tf.float32), "x2": lacking}


def half_plus_three(path):
    """Writes y = x/2 + 3 for ``x`` of any shape, with reference variables."""
    v1 = tensorflow().compat.v1
    with v1.Graph().as_default(), v1.Session() as session:
        a = v1.Variable(0.5, name="a", use_resource=False)
        b = v1.Variable(3.0, name="b", use_resource=False)
        examples = v1.placeholder(v1.string, name="tf_example")
        x = v1.identity(v1.parse_example(examples, features())["x"], name="x")
        y = v1.add(v1.multiply(a, x), b, name="y")
        signatures = {
            "serving_default": signature({"x": x}, {"y": y}),
            REGRESS: signature({"inputs": examples}, {"outputs": y}, REGRESS),
        }
        save(session, path, signatures)


def matrix_half_plus_two(path):
    """Writes y = x/2 + 2 for matrices of 3 x 3, without variables."""
    v1 = tensorflow().compat.v1
    with v1.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(v1.float32, [None, 3, 3], name="x")
        y = v1.add(0.5 * x, 2.0, name="y")
        save(session, path, {"serving_default": signature({"x": x}, {"y": y})})


def counter(path):
    """Writes a number that requests change; most requests have no inputs."""
    v1 = tensorflow().compat.v1
    with v1.Graph().as_default(), v1.Session() as session:
        number = v1.Variable(0.0, name="counter", use_resource=False)
        delta = v1.placeholder(v1.float32, name="delta")
        signatures = {
            "get_counter": signature({}, {"output": number}),
            "incr_counter": signature({}, {"output": number.assign_add(1.0)}),
            "incr_counter_by": signature({"delta": delta}, {"output": number.assign_add(delta)}),
            "reset_counter": signature({}, {"output": number.assign(0.0)}),
        }
        save(session, path, signatures)


def counter_tf2(path):
    """Writes the counter with functions."""
    tf = tensorflow()
    module = tf.Module()
    module.number = number = tf.Variable(0.0)
    delta = tf.TensorSpec([], tf.float32, "delta")

    def saved(function, *inputs):
        def output(*given):
            return {"output": function(*given)}

        return tf.function(output, inputs, autograph=False).get_concrete_function()

    found = {
        "get_counter": saved(number.read_value),
        "incr_counter": saved(lambda: number.assign_add(1.0)),
        "incr_counter_by": saved(lambda delta: number.assign_add(delta), delta),
        "reset_counter": saved(lambda: number.assign(0.0)),
    }
    tf.saved_model.save(module, path, found)


def several(path):
    """Writes signatures of several inputs and outputs; an input of one signature has no axis."""
    tf = tensorflow()

    def spec(name, *shape, dtype=tf.float32):
        return tf.TensorSpec(shape, dtype, name)

    @tf.function(
        input_signature=[
            spec("tag", None, dtype=tf.string),
            spec("signal", None, 5),
            spec("sensor", None, 2, 2),
        ]
    )
    def default(tag, signal, sensor):
        return {
            "label": tag,
            "total": tf.reduce_sum(signal, 1),
            "turned": tf.transpose(sensor, [0, 2, 1]),
        }

    @tf.function(input_signature=[spec("signal", None, 5)])
    def total(signal):
        return {"total": tf.reduce_sum(signal, 1)}

    @tf.function(input_signature=[spec("x", None), spec("threshold")])
    def above(x, threshold):
        return {"is_above": x > threshold}

    module = tf.Module()
    found = {"serving_default": default, "total": total, "above": above}
    tf.saved_model.save(module, path, found)


def text(path):
    """Writes texts in capitals, as text and as bytes."""
    tf = tensorflow()
    texts = [tf.TensorSpec([None], tf.string, "text")]

    @tf.function(input_signature=texts)
    def default(text):
        return {"capitals": tf.strings.upper(text, encoding="utf-8")}

    @tf.function(input_signature=texts)
    def as_bytes(text):
        return {"capitals_bytes": tf.strings.upper(text)}

    tf.saved_model.save(tf.Module(), path, {"serving_default": default, "as_bytes": as_bytes})


def lookup(path):
    """Writes a table from words to numbers, read from a file in the model's folder."""
    tf = tensorflow()
    module = tf.Module()

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "word")])
    def default(word):
        return {"number": module.table.lookup(word)}

    with words() as file:
        module.table = tf.lookup.StaticHashTable(initializer(file), -1)
        tf.saved_model.save(module, path, {"serving_default": default})


def lookup_tf1(path):
    """Writes the table as TensorFlow 1 does, filled by an operation of the graph at the start."""
    v1 = tensorflow().compat.v1
    with words() as named, v1.Graph().as_default(), v1.Session() as session:
        file = v1.constant(named)
        v1.add_to_collection(v1.GraphKeys.ASSET_FILEPATHS, file)
        table = v1.lookup.StaticHashTable(initializer(file), -1)
        word = v1.placeholder(v1.string, [None], name="word")
        signatures = {"serving_default": signature({"word": word}, {"number": table.lookup(word)})}
        assets = v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS)
        save(session, path, signatures, assets_collection=assets, main_op=v1.tables_initializer())


@contextlib.contextmanager
def words():
    """Yields a file of words, one a line, until the model has its own copy."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "words.txt"
        file.write_text("".join(f"{word}\n" for word in ANIMALS))
        yield str(file)


def initializer(file):
    """Returns the initializer that maps each line of a file to the line's number."""
    tf = tensorflow()
    whole, number = tf.lookup.TextFileIndex.WHOLE_LINE, tf.lookup.TextFileIndex.LINE_NUMBER
    return tf.lookup.TextFileInitializer(file, tf.string, whole, tf.int64, number)


def signature(inputs, outputs, method="tensorflow/serving/predict"):
    """Returns a signature of a graph, by its tensors."""
    v1 = tensorflow().compat.v1
    info = v1.saved_model.utils.build_tensor_info
    return v1.saved_model.signature_def_utils.build_signature_def(
        {name: info(tensor) for name, tensor in inputs.items()},
        {name: info(tensor) for name, tensor in outputs.items()},
        method,
    )


def save(session, path, signatures, **more):
    """Writes a graph and its variables as TensorFlow 1 does."""
    v1 = tensorflow().compat.v1
    session.run(v1.global_variables_initializer())
    builder = v1.saved_model.builder.SavedModelBuilder(path)
    builder.add_meta_graph_and_variables(session, ["serve"], signatures, **more)
    builder.save()


MODELS = {
    "half_plus_two": half_plus_two,
    "half_plus_two_cpu": half_plus_two_cpu,
    "half_plus_two_tf2": half_plus_two_tf2,
    "half_plus_three": half_plus_three,
    "matrix_half_plus_two": matrix_half_plus_two,
    "counter": counter,
    "counter_tf2": counter_tf2,
    "several": several,
    "text": text,
    "lookup": lookup,
    "lookup_tf1": lookup_tf1,
}

if __name__ == "__main__":
    for model in MODELS:
        write(Path(sys.argv[1]), model)
