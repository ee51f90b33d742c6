"""Tests that TensorFlow Serving's example models answer as documented, and as TensorFlow does."""

import asyncio
import base64
import contextlib
import functools
import importlib

import numpy as np
import pytest

from modelflow.ipc.loop_queue import LoopQueue
from modelflow.serve.repository.load_version import load_version
from modelflow.serve.repository.loader import Loader
from modelflow.serve.repository.source import ModelConfig
from modelflow.serve.server import ServeOptions, Server
from modelflow.wire.proto import TF_SERVING
from modelflow.wire.tf_serving.tensor_proto import array_of_proto, fill_proto
from tests.serve.clients import ask, of_rest
from tests.serve.grpc.stub import PREDICTION, stub
from tests.serve.half_plus_two import CLASSIFY, REGRESS, example, tensorflow
from tests.serve.tensorflow_serving_models import MODELS, write

DEFAULT = "serving_default"
HALF_PLUS_TWO = ("half_plus_two", "half_plus_two_cpu", "half_plus_two_tf2")
COUNTERS = ("counter", "counter_tf2")
MATRIX = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]
HALVED = [[2.5, 3.0, 3.5], [4.0, 4.5, 5.0], [5.5, 6.0, 6.5]]
# The request of TensorFlow Serving's page of the REST API, by rows and by columns.
ROWS = [
    {"tag": "foo", "signal": [1, 2, 3, 4, 5], "sensor": [[1, 2], [3, 4]]},
    {"tag": "bar", "signal": [3, 4, 1, 2, 5], "sensor": [[4, 5], [6, 8]]},
]
COLUMNS = {
    "tag": ["foo", "bar"],
    "signal": [[1, 2, 3, 4, 5], [3, 4, 1, 2, 5]],
    "sensor": [[[1, 2], [3, 4]], [[4, 5], [6, 8]]],
}


def b64(value):
    return {"b64": base64.b64encode(value).decode()}


def example_of_2():
    return b64(example(x=2.0).SerializeToString())


def on_each(models, *cases):
    return [(model, *case) for model in models for case in cases]


# A model, a signature, the request and the expected answer.
PREDICTIONS = [
    *on_each(
        HALF_PLUS_TWO,
        (DEFAULT, {"instances": [1.0, 2.0, 5.0]}, {"predictions": [2.5, 3.0, 4.5]}),
        (DEFAULT, {"instances": [2.0]}, {"predictions": [3.0]}),
        (DEFAULT, {"instances": [[1.0], [2.0]]}, {"predictions": [[2.5], [3.0]]}),
        (DEFAULT, {"instances": [{"x": 1.0}, {"x": 2.0}]}, {"predictions": [2.5, 3.0]}),
        (DEFAULT, {"inputs": [1.0, 2.0, 5.0]}, {"outputs": [2.5, 3.0, 4.5]}),
        (DEFAULT, {"inputs": {"x": [1.0, 2.0, 5.0]}}, {"outputs": [2.5, 3.0, 4.5]}),
        (DEFAULT, {"inputs": 5.0}, {"outputs": 4.5}),
        (DEFAULT, {"inputs": [[[2.0, 4.0]]]}, {"outputs": [[[3.0, 4.0]]]}),
        ("regress_x2_to_y3", {"inputs": 2.0}, {"outputs": 4.0}),
        ("classify_x2_to_y3", {"inputs": 2.0}, {"outputs": 4.0}),
        ("classify_x2_to_y3", {"instances": [2.0, 4.0]}, {"predictions": [4.0, 5.0]}),
        ("regress_x_to_y", {"inputs": [example_of_2]}, {"outputs": [[3.0]]}),
        ("classify_x_to_y", {"instances": [example_of_2]}, {"predictions": [[3.0]]}),
    ),
    *on_each(
        ("half_plus_three",),
        (DEFAULT, {"instances": [1.0, 2.0, 5.0]}, {"predictions": [3.5, 4.0, 5.5]}),
        (DEFAULT, {"inputs": [[1.0, 2.0]]}, {"outputs": [[3.5, 4.0]]}),
        (DEFAULT, {"inputs": 5.0}, {"outputs": 5.5}),
    ),
    *on_each(
        ("matrix_half_plus_two",),
        (DEFAULT, {"instances": [MATRIX]}, {"predictions": [HALVED]}),
        (DEFAULT, {"inputs": [MATRIX, MATRIX]}, {"outputs": [HALVED, HALVED]}),
        (DEFAULT, {"inputs": MATRIX}, {"outputs": HALVED}),
    ),
    *on_each(
        ("several",),
        (
            DEFAULT,
            {"instances": ROWS},
            {
                "predictions": [
                    {"label": "foo", "total": 15.0, "turned": [[1.0, 3.0], [2.0, 4.0]]},
                    {"label": "bar", "total": 15.0, "turned": [[4.0, 6.0], [5.0, 8.0]]},
                ]
            },
        ),
        (
            DEFAULT,
            {"inputs": COLUMNS},
            {
                "outputs": {
                    "label": ["foo", "bar"],
                    "total": [15.0, 15.0],
                    "turned": [[[1.0, 3.0], [2.0, 4.0]], [[4.0, 6.0], [5.0, 8.0]]],
                }
            },
        ),
        ("total", {"instances": [[1, 2, 3, 4, 5]]}, {"predictions": [15.0]}),
        ("total", {"inputs": {"signal": [[1, 2, 3, 4, 5]]}}, {"outputs": [15.0]}),
        (
            "above",
            {"inputs": {"x": [1.0, 2.0, 5.0], "threshold": 1.5}},
            {"outputs": [False, True, True]},
        ),
    ),
    *on_each(
        ("text",),
        (DEFAULT, {"instances": ["foo", "bar", "baz"]}, {"predictions": ["FOO", "BAR", "BAZ"]}),
        (DEFAULT, {"inputs": {"text": ["caf\u00e9"]}}, {"outputs": ["CAF\u00c9"]}),
        (DEFAULT, {"inputs": "foo"}, {"outputs": "FOO"}),
        (DEFAULT, {"inputs": [["foo"], ["bar"]]}, {"outputs": [["FOO"], ["BAR"]]}),
        (DEFAULT, {"instances": [b64(b"foo")]}, {"predictions": ["FOO"]}),
        ("as_bytes", {"instances": [b64(b"foo\xff")]}, {"predictions": [b64(b"FOO\xff")]}),
    ),
    *on_each(
        ("lookup", "lookup_tf1"),
        (DEFAULT, {"instances": ["dog", "cat", "unicorn"]}, {"predictions": [1, 0, -1]}),
        (DEFAULT, {"inputs": {"word": ["bird"]}}, {"outputs": [2]}),
        (DEFAULT, {"inputs": "dog"}, {"outputs": 1}),
        (DEFAULT, {"inputs": [["dog", "cat"]]}, {"outputs": [[1, 0]]}),
    ),
]

# A model, a signature, the method, the examples and the results.
X = [{"x": 1.0}, {"x": 2.0}]
EXAMPLES = [
    *on_each(
        HALF_PLUS_TWO,
        ("classify_x_to_y", "classify", [{"x": 2.0}], [[["", 3.0]]]),
        ("classify_x_to_y", "classify", X, [[["", 2.5]], [["", 3.0]]]),
        ("regress_x_to_y", "regress", [{"x": 2.0}], [3.0]),
        ("regress_x_to_y", "regress", X, [2.5, 3.0]),
        ("regress_x_to_y2", "regress", [{"x": 2.0, "x2": 9.0}], [4.0]),
    ),
    ("half_plus_three", REGRESS, "regress", X, [3.5, 4.0]),
]
# The requests of TensorFlow Serving's own test, after a reset of the counter.
COUNTS = [
    ("reset_counter", {}, 0.0),
    ("get_counter", {}, 0.0),
    ("incr_counter", {}, 1.0),
    ("get_counter", {}, 1.0),
    ("reset_counter", {}, 0.0),
    ("incr_counter", {}, 1.0),
    ("incr_counter_by", {"delta": 3.0}, 4.0),
    ("get_counter", {}, 4.0),
]

of_predictions = pytest.mark.parametrize(
    ("model", "signature", "asked", "answered"), PREDICTIONS, indirect=["model"]
)
of_examples = pytest.mark.parametrize(
    ("model", "signature", "method", "examples", "results"), EXAMPLES, indirect=["model"]
)
of_counters = pytest.mark.parametrize("model", COUNTERS, indirect=True)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Returns the folder of each model, by the model's name."""
    base = tmp_path_factory.mktemp("models")
    return {name: write(base, name) for name in MODELS}


@pytest.fixture
def model(request, folders):
    return folders[request.param]


@pytest.fixture(scope="module")
def server(grpc_server, folders):
    """Serves all models."""
    with Server(folders, ServeOptions(http_port=0, grpc_port=0)) as running:
        yield running


@pytest.fixture(scope="module")
def load():
    """Yields a function that returns TensorFlow's results for a model, loaded once."""
    with contextlib.ExitStack() as sessions:
        yield functools.cache(lambda model: loaded(model, sessions))


def loaded(model, sessions):
    v1 = tensorflow().compat.v1
    options = importlib.import_module("tensorflow.core.protobuf.config_pb2").CallableOptions
    with v1.Graph().as_default() as graph:
        session = sessions.enter_context(contextlib.closing(v1.Session(graph=graph)))
        path = str(model / "00000123")
        signatures = v1.saved_model.loader.load(session, ["serve"], path).signature_def

    def run(signature, inputs):
        asked, given = signatures[signature], dict(signatures[signature].outputs)
        feed = [asked.inputs[name].name for name in inputs]
        # ``session.run`` compares shapes; the session itself, which a server calls, does not.
        call = session._make_callable_from_options(
            options(feed=feed, fetch=[tensor.name for tensor in given.values()])
        )
        return dict(zip(given, call(*inputs.values()), strict=True))

    return signatures, run


@pytest.fixture
def itself(load, model):
    """Returns TensorFlow's results for a signature, by the names of its tensors."""
    return load(model)


# -- from documents to arrays, and back -----------------------------------------------------------


def filled(value):
    """Returns a document in which examples replace the functions that make them."""
    if isinstance(value, dict):
        return {key: filled(one) for key, one in value.items()}
    if isinstance(value, list):
        return [filled(one) for one in value]
    return value() if callable(value) else value


def plain(value):
    """Returns a value of a document as in a tensor, where texts are bytes."""
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return base64.b64decode(value["b64"])
    return value.encode() if isinstance(value, str) else value


def inputs_of(asked, signature):
    """Returns the arrays that a document asks for, by name."""
    (value,) = asked.values()
    first = value[0] if "instances" in asked else value
    if not isinstance(first, dict) or "b64" in first:
        (name,) = signature.inputs
        columns = {name: value}
    elif "instances" in asked:
        columns = {name: [row[name] for row in value] for name in first}
    else:
        columns = value
    return {name: tensor(one, signature.inputs[name]) for name, one in columns.items()}


def tensor(value, info):
    dtype = tensorflow().as_dtype(info.dtype).as_numpy_dtype
    return np.array(plain(value), dtype)


def document_of(outputs, is_row):
    """Returns the document that answers with these arrays."""
    found = {name: shown(np.asarray(array).tolist(), name) for name, array in outputs.items()}
    if len(found) == 1:
        (value,) = found.values()
    elif is_row:
        rows = zip(*found.values(), strict=True)
        value = [dict(zip(found, row, strict=True)) for row in rows]
    else:
        value = found
    return {"predictions" if is_row else "outputs": value}


def shown(value, name):
    if isinstance(value, list):
        return [shown(one, name) for one in value]
    if isinstance(value, bytes):
        return b64(value) if name.endswith("_bytes") else value.decode()
    return value


# -- predictions ----------------------------------------------------------------------------------


@of_predictions
def test_tensorflow_itself_predicts_so(itself, model, signature, asked, answered):
    signatures, run = itself
    asked = filled(asked)
    outputs = run(signature, inputs_of(asked, signatures[signature]))
    assert document_of(outputs, "instances" in asked) == answered


@of_rest
@of_predictions
def test_a_model_predicts_over_rest(server, model, signature, asked, answered):
    body = {**filled(asked), **({} if signature == DEFAULT else {"signature_name": signature})}
    assert ask(server, f"/v1/models/{model.name}:predict", body)[:2] == (200, answered)


@of_predictions
def test_a_model_predicts_over_grpc(server, itself, model, signature, asked, answered):
    asked = filled(asked)
    inputs = inputs_of(asked, itself[0][signature])
    answer = predict(server, model, signature, inputs)
    outputs = {name: array_of_proto(one, name) for name, one in answer.outputs.items()}
    assert document_of(outputs, "instances" in asked) == answered


def predict(server, model, signature, inputs):
    """Returns the result over gRPC, and checks the model that the reply names."""
    message = TF_SERVING["tensorflow.serving.PredictRequest"]()
    message.model_spec.name, message.model_spec.signature_name = model.name, signature
    for name, array in inputs.items():
        fill_proto(message.inputs[name], array)
    with stub(server) as client:
        answer = client.call(PREDICTION, "Predict", message)
    told(answer, model, signature)
    return answer


def told(answer, model, signature):
    spec = answer.model_spec
    found = (spec.name, spec.version.value, spec.signature_name)
    assert found == (model.name, 123, signature)


# -- examples -------------------------------------------------------------------------------------


@of_examples
def test_tensorflow_itself_reads_examples_so(itself, model, signature, method, examples, results):
    signatures, run = itself
    texts = np.array([example(**one).SerializeToString() for one in examples], object)
    (array,) = run(signature, {"inputs": texts}).values()
    rows = [[["", score] for score in row] if method == "classify" else row[0] for row in array]
    assert signatures[signature].method_name == f"tensorflow/serving/{method}"
    assert rows == results


@of_rest
@of_examples
def test_a_model_reads_examples_over_rest(server, model, signature, method, examples, results):
    body = {"signature_name": signature, "examples": examples}
    found = ask(server, f"/v1/models/{model.name}:{method}", body)
    assert found[:2] == (200, {"results": results})


@of_examples
def test_a_model_reads_examples_over_grpc(server, model, signature, method, examples, results):
    name = {"classify": "Classify", "regress": "Regress"}[method]
    spec = {"name": model.name, "signature_name": signature}
    with stub(server) as client:
        answer = client.call(PREDICTION, name, model_spec=spec, input=example_list(examples))
    told(answer, model, signature)
    assert results_of(answer.result) == results


def example_list(examples):
    message = TF_SERVING["tensorflow.serving.Input"]()
    for one in examples:
        message.example_list.examples.add().MergeFromString(example(**one).SerializeToString())
    return message


def results_of(result):
    """Returns the content of a message in the form of the document."""
    if hasattr(result, "regressions"):
        return [one.value for one in result.regressions]
    return [[[one.label, one.score] for one in row.classes] for row in result.classifications]


@pytest.mark.parametrize("model", HALF_PLUS_TWO, indirect=True)
def test_a_model_is_asked_for_both_at_once(server, model):
    wanted = {"regress_x_to_y": REGRESS, "classify_x_to_y": CLASSIFY}
    tasks = [
        {"model_spec": {"name": model.name, "signature_name": name}, "method_name": method}
        for name, method in wanted.items()
    ]
    both = example_list([{"x": 2.0}])
    with stub(server) as client:
        answer = client.call(PREDICTION, "MultiInference", tasks=tasks, input=both)
    for result, name in zip(answer.results, wanted, strict=True):
        told(result, model, name)
    first, second = answer.results
    assert results_of(first.regression_result) == [3.0]
    assert results_of(second.classification_result) == [[["", 3.0]]]


# -- requests without inputs that change the model ------------------------------------------------


@of_counters
def test_tensorflow_itself_counts_so(itself, model):
    _, run = itself
    found = [
        run(name, {key: np.float32(one) for key, one in inputs.items()})
        for name, inputs, _ in COUNTS
    ]
    assert found == [{"output": value} for _, _, value in COUNTS]


@of_rest
@of_counters
def test_a_model_counts_over_rest(server, model):
    bodies = [{"signature_name": name, "inputs": inputs} for name, inputs, _ in COUNTS]
    found = [ask(server, f"/v1/models/{model.name}:predict", body)[:2] for body in bodies]
    assert found == [(200, {"outputs": value}) for _, _, value in COUNTS]


@of_counters
def test_a_model_counts_over_grpc(server, model):
    found = []
    for name, inputs, _ in COUNTS:
        arrays = {key: np.array(one, np.float32) for key, one in inputs.items()}
        output = predict(server, model, name, arrays).outputs["output"]
        found.append((output.dtype, array_of_proto(output, "output").tolist()))
    number = TF_SERVING.enum("tensorflow.DataType")["DT_FLOAT"]
    assert found == [(number, value) for _, _, value in COUNTS]


@of_rest
@of_counters
def test_a_single_input_needs_no_name(server, model):
    bodies = [
        {"signature_name": name, "inputs": value}
        for name, value in (("reset_counter", {}), ("incr_counter_by", 3.0))
    ]
    found = [ask(server, f"/v1/models/{model.name}:predict", body)[:2] for body in bodies]
    assert found == [(200, {"outputs": 0.0}), (200, {"outputs": 3.0})]


@of_counters
def test_a_version_that_is_loaded_again_counts_anew_beside_the_old(model):
    async def count():
        loop_queue, loader = LoopQueue(asyncio.get_running_loop()), Loader()
        (edition,) = ModelConfig("counter", model).list_versions()

        def ask_flow(served, signature):
            return float(served.with_signature(signature).flow.infer(None).data)

        try:
            old, new = (
                load_version("counter", edition, loader, loop_queue, ServeOptions())
                for _ in range(2)
            )
            counted = ask_flow(old, "incr_counter")
            return [counted, *(ask_flow(served, "get_counter") for served in (old, new))]
        finally:
            loader.stop()

    assert asyncio.run(count()) == [1, 1, 0]


# -- the description of a model -------------------------------------------------------------------


@of_rest
@pytest.mark.parametrize("model", ["half_plus_three"], indirect=True)
def test_the_version_is_the_number_of_the_folder(server, model):
    status = {"error_code": "OK", "error_message": ""}
    told = {"version": "123", "state": "AVAILABLE", "status": status}
    found = ask(server, f"/v1/models/{model.name}")
    assert found[:2] == (200, {"model_version_status": [told]})
