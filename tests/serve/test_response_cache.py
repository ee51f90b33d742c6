"""Tests of the response cache: equal inputs get the stored outputs, over every protocol."""

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

import modelflow
from modelflow.buffer import Buffer
from modelflow.serve.requests.state.input_hash import hash_inputs
from modelflow.serve.requests.state.response_cache import ResponseCache
from modelflow.serve.server import ServeOptions, Server
from tests.prometheus import samples_of
from tests.serve.clients import TYPED, ask, send
from tests.serve.grpc.stub import infer, predict, stub

PREDICT = "/v1/models/m:predict"
INFER = "/v2/models/m/infer"
GENERATE = "/v2/models/m/generate"
LABELS = (("model", "m"), ("version", "1"))


def counting(name="mean"):
    """Returns a unit whose output is the mean and the number of its row; -1 fails."""
    numbers = itertools.count()

    class Mean(modelflow.FlowUnit):
        SPEC = modelflow.FlowUnitSpec(
            name,
            {"cpu": lambda: Mean()},
            inputs=(modelflow.Port("row"),),
            outputs=(modelflow.Port("out"),),
        )

        def process(self, ctx):
            for buffer in ctx.input():
                if buffer.data[0] < 0:
                    ctx.emit([modelflow.BadRequest("negative")])
                else:
                    ctx.emit([np.float32(np.mean(buffer.data) + 1000 * next(numbers))])

    return Mean


@pytest.fixture
def server(grpc_server):
    flow = modelflow.Flow(TYPED.format(node="batch_size=2"), units=[counting()])
    options = ServeOptions(http_port=0, grpc_port=0, caches=("m=1MiB",))
    with Server({"m": flow}, options) as running:
        yield running


def rows(*given):
    data = np.float32(given)
    tensor = {"name": "input", "datatype": "FP32", "shape": [*data.shape]}
    return {"inputs": [{**tensor, "data": data.ravel().tolist()}]}


def test_equal_inputs_have_one_answer_over_every_protocol(server):
    rest = ask(server, PREDICT, {"instances": [[1.0, 3.0]]})[1]["predictions"]
    assert rest == [2.0]
    assert ask(server, PREDICT, {"inputs": [[1, 3]]})[1]["outputs"] == [2.0]
    assert ask(server, INFER, {"id": "7", **rows([1, 3])})[1]["outputs"][0]["data"] == [2.0]
    with stub(server) as client:
        answer = client.oip("ModelInfer", infer(np.float32([[1, 3]])))
        assert np.frombuffer(answer.raw_output_contents[0], np.float32).tolist() == [2.0]
        answer = client.call(
            "tensorflow.serving.PredictionService", "Predict", predict(np.float32([[1, 3]]))
        )
        assert answer.outputs["output"].float_val == [2.0]
    assert ask(server, GENERATE, {"input": [1.0, 3.0]})[1] == {"output": 2.0}
    assert ask(server, GENERATE, {"input": [1.0, 3.0]})[1] == {"output": 2.0}


def test_other_values_shapes_and_counts_have_their_own_answers(server):
    given = [[[1.0, 3.0]], [[3.0, 1.0]], [[1.0, 3.0, 2.0]], [[2.0]], [[1.0, 3.0]] * 2, [[1.0]] * 3]
    first = [ask(server, PREDICT, {"instances": one})[1]["predictions"] for one in given]
    assert len({value for found in first for value in found}) == sum(map(len, given))
    assert [ask(server, PREDICT, {"instances": one})[1]["predictions"] for one in given] == first


def test_errors_and_streams_are_not_stored(server):
    for _ in range(2):
        assert ask(server, PREDICT, {"instances": [[-1.0]]})[0] == 400
    events = {send(server, "POST", f"{GENERATE}_stream", b'{"input": [5.0]}')[2] for _ in range(2)}
    assert len(events) == 2


def test_hits_and_misses_are_counted(server):
    for value in (1.0, 2.0, 1.0, 1.0):
        assert ask(server, PREDICT, {"instances": [[value]]})[0] == 200
    found = samples_of(send(server, "GET", "/metrics")[2].decode())
    assert (
        found["modelflow_cache_lookups_total", ("model", "m"), ("result", "hit"), ("version", "1")]
        == 2
    )
    assert found["nv_cache_num_hits_per_model", *LABELS] == 2
    assert found["nv_cache_num_misses_per_model", *LABELS] == 2
    stats = ask(server, "/v2/models/m/stats")[1]["model_stats"][0]["inference_stats"]
    assert (stats["cache_hit"]["count"], stats["cache_miss"]["count"]) == (2, 2)
    assert stats["success"]["count"] == 4


@pytest.mark.parametrize(
    ("caches", "is_cached"),
    [((), False), (("1MiB",), True), (("n=1MiB",), False), (("1MiB", "m=0"), False)],
)
def test_the_option_names_a_model_or_all(caches, is_cached):
    flow = modelflow.Flow(TYPED.format(node="batch_size=2"), units=[counting()])
    with Server({"m": flow}, ServeOptions(http_port=0, caches=caches)) as server:
        answers = {
            ask(server, PREDICT, {"instances": [[1.0]]})[1]["predictions"][0] for _ in range(2)
        }
    assert (len(answers) == 1) is is_cached


def test_the_graph_may_set_the_size():
    text = TYPED.format(node="batch_size=2") + '\n[serve]\ncache = "64KiB"\n'
    flow = modelflow.Flow(text, units=[counting()])
    with Server({"m": flow}, ServeOptions(http_port=0)) as server:
        assert {
            ask(server, PREDICT, {"instances": [[1.0]]})[1]["predictions"][0] for _ in range(2)
        } == {1.0}


@pytest.mark.parametrize("text", ["64", "x", "m=64 MeB", "=", "m="])
def test_a_wrong_size_is_told(text):
    if text == "64":
        assert ServeOptions(caches=(text,)).cache_of("m") == 64
        return
    with pytest.raises(
        modelflow.ConfigError, match=r"--cache: got .*; expected a size, or NAME=SIZE"
    ):
        ServeOptions(caches=(text,))


def test_the_least_recently_used_answers_make_room():
    cache = ResponseCache(10_000)
    for number in range(4):
        cache.store(b"%d" % number, {"out": [Buffer(np.zeros(2000, np.uint8))]})
        cache.find(b"0")
    cache.store(b"4", {"out": [Buffer(np.zeros(2000, np.uint8))]})
    assert [cache.find(b"%d" % number) is not None for number in range(5)] == [
        True,
        False,
        True,
        True,
        True,
    ]
    cache.store(b"large", {"out": [Buffer(np.zeros(20_000, np.uint8))]})
    assert cache.find(b"large") is None
    assert cache.find(b"0") is not None


def test_a_stored_row_does_not_keep_its_batch():
    cache, batch = ResponseCache(10_000), np.zeros((1000, 4))
    cache.store(b"a", {"out": [Buffer(batch[0])]})
    (found,) = cache.find(b"a")["out"]
    assert found.base is None
    assert not found.flags.writeable


def serve_values(make, **options):
    """Serves a graph whose output is the value that ``make`` returns for a row."""

    class Mean(modelflow.FlowUnit):
        SPEC = counting().SPEC
        process = lambda _, ctx: ctx.emit([make(buffer.data) for buffer in ctx.input()])  # noqa: E731

    Mean.SPEC = replace(Mean.SPEC, devices={"cpu": Mean})
    text = TYPED.format(node="batch_size=1").split("[serve.output.output]")[0]
    flow = modelflow.Flow(text, units=[Mean])
    return Server({"m": flow}, ServeOptions(http_port=0, caches=("1MiB",), **options))


def test_a_value_that_changes_later_is_stored_as_it_was():
    shared = {"n": 0}

    def count(_):
        shared["n"] += 1
        return shared

    with serve_values(count) as server:
        found = [ask(server, GENERATE, {"input": [n]})[1]["output"]["n"] for n in (1, 2, 1)]
    assert found == [1, 2, 1]


class Local(list[bytes]):
    """A value that cannot be copied, and that JSON carries."""

    def __reduce__(self):
        raise TypeError("no copies")


@pytest.mark.parametrize("is_stored", [True, False])
def test_an_answer_that_cannot_be_copied_is_answered_and_not_stored(is_stored):
    numbers = itertools.count()

    def make(_):
        number = b"%d" % next(numbers)
        return memoryview(number) if is_stored else Local([number])

    with serve_values(make) as server:
        found = [ask(server, GENERATE, {"input": [1.0]}) for _ in range(2)]
    assert [status for status, _, _ in found] == [200, 200]
    assert (found[0][1] == found[1][1]) is is_stored


@pytest.mark.parametrize("path", [PREDICT, INFER, GENERATE])
def test_stored_answers_need_no_room_in_a_full_model(path):
    gate, has_begun = threading.Event(), threading.Event()
    documents = {PREDICT: {"instances": [[1.0]]}, INFER: rows([1.0]), GENERATE: {"input": [1.0]}}

    def wait(row):
        if row[0] == 2:
            has_begun.set()
            gate.wait()
        return np.float32(row[0])

    with serve_values(wait, max_requests=1) as server, ThreadPoolExecutor(1) as pool:
        assert ask(server, path, documents[path])[0] == 200
        slow = pool.submit(ask, server, PREDICT, {"instances": [[2.0]]})
        has_begun.wait()
        assert ask(server, path, documents[path])[0] == 200
        assert ask(server, PREDICT, {"instances": [[3.0]]})[0] == 503
        gate.set()
        assert slow.result()[0] == 200


@pytest.mark.parametrize(
    "pair",
    [
        ([b"ab", b"c"], [b"a", b"bc"]),
        ([1], [1.0]),
        (["1"], [1]),
        ([True], [1]),
        ([np.float32(1)], [np.float64(1)]),
        ([np.zeros(4, np.int8)], [np.zeros((2, 2), np.int8)]),
        ([np.zeros(4, np.int8)], [np.zeros(1, np.int32)]),
        ([np.array([b"a"], object)], [np.array([b"b"], object)]),
        ([{"b64": "a"}], [{"b64": "b"}]),
        ([b"1"], ["1"]),
        ([np.zeros((0, 2))], [np.zeros((0, 3))]),
    ],
)
def test_unlike_items_have_unlike_keys(pair):
    one, other = (hash_inputs("s", {"x": items}, None) for items in pair)
    assert one != other
    assert hash_inputs("s", {"x": pair[0]}, None) == one
    assert hash_inputs("t", {"x": pair[0]}, None) != one
    assert hash_inputs("s", {"x": pair[0]}, {"a": 1}) != one


def test_bfloat16_has_keys_of_its_own():
    bfloat16 = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed").bfloat16
    given = [np.array([1, 2], bfloat16), np.array([1, 3], bfloat16), bfloat16(1), np.float16(1.875)]
    assert given[2].tobytes() == given[3].tobytes()
    assert len({hash_inputs("s", {"x": [item]}, None) for item in given}) == len(given)
