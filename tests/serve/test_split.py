"""Tests of labels with several versions: exact shares, and shadow copies."""

import asyncio
import collections
import contextlib
import importlib
import threading
from typing import Any

import numpy as np
import pytest

import modelflow
from modelflow.errors import ConfigError
from modelflow.serve.repository.config import ServeConfig
from modelflow.serve.repository.source import VersionPolicy
from modelflow.serve.requests.model import NO_TERMS
from modelflow.serve.server import ServeOptions, Server
from modelflow.serve.traffic.shadows import Shadows
from modelflow.serve.traffic.split import Label, Split, read_split
from tests.prometheus import samples_of
from tests.serve.clients import ask, send
from tests.serve.models_on_disk import write_version
from tests.serve.processes.server_processes import serving, wait_until

REQUEST, ANSWER = {"instances": [[1.0, 2.0]]}, {"predictions": [[2.0, 3.0]]}


def label_of(split) -> Any:
    return Label(split)


# -- the choice -----------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [(90, 10), (1, 1), (50, 30, 20), (7, 2), (99, 1)])
def test_shares_are_exact_over_the_sum_of_the_weights(weights):
    shares = dict(enumerate(weights))
    models = {number: number for number in shares}
    label = label_of(Split(shares, {}))
    for _ in range(3):
        found = collections.Counter(label.choose(models) for _ in range(sum(weights)))
        assert found == shares


def test_requests_of_a_version_are_spread():
    label = label_of(Split({3: 2, 4: 1}, {}))
    models = {3: "A", 4: "B"}
    assert "".join(label.choose(models) for _ in range(9)) == "ABAABAABA"


def test_version_that_is_not_loaded_loses_its_share_and_gets_it_back():
    label = label_of(Split({3: 50, 4: 50}, {}))
    assert {label.choose({3: "A"}) for _ in range(10)} == {"A"}
    found = collections.Counter(label.choose({3: "A", 4: "B"}) for _ in range(100))
    assert found == {"A": 50, "B": 50}
    assert label.choose({}) is None


@pytest.mark.parametrize("percent", [1, 20, 33, 50, 100])
def test_copies_are_exact_over_100_requests(percent):
    label = label_of(Split({3: 100}, {5: percent}))
    for _ in range(3):
        assert sum(len(label.choose_shadows({5: "C"})) for _ in range(100)) == percent
    assert label.choose_shadows({}) == []


@pytest.mark.parametrize(
    ("targets", "split"),
    [
        (["3"], ({3: 100}, {})),
        (["3@90", "4@10"], ({3: 90, 4: 10}, {})),
        (["3", "5@shadow"], ({3: 100}, {5: 100})),
        (["3@90", "4@10", "5@shadow:20%"], ({3: 90, 4: 10}, {5: 20})),
    ],
)
def test_targets_of_a_label_are_read(targets, split):
    assert read_split("x", targets) == split


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (["x"], r"got 'x'; expected VERSION, VERSION@WEIGHT or VERSION@shadow:20%"),
        (["3@0"], "expected VERSION"),
        (["3@shadow:0%"], "expected VERSION"),
        (["3@shadow:101%"], "expected VERSION"),
        (["3@10", "3@20"], "version 3 is given twice"),
        (["3", "4@10"], "2 versions, and one without a weight"),
        (["5@shadow"], "got shadow versions alone"),
    ],
)
def test_wrong_targets_are_refused(targets, message):
    with pytest.raises(ConfigError, match=message):
        read_split("--label m:x", targets)


# -- served ---------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    for number in (3, 4, 5):
        write_version(tmp_path / "m", number)
    return tmp_path


def config_of(folder, split):
    settings = ServeConfig().settings
    return ServeConfig(
        {"m": folder / "m"},
        settings=type(settings)(VersionPolicy(latest=0)),
        labels={"m": {"stable": split}},
    )


@contextlib.contextmanager
def served(folder, split):
    with Server(config_of(folder, split), ServeOptions(http_port=0, grpc_port=0)) as server:
        yield server


def over_predict(server, _):
    found = ask(server, "/v1/models/m/labels/stable:predict", {"instances": [[1.0, 1.0]]})[1]
    return found["predictions"][0][0]


def over_infer(server, _):
    tensor = {"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1.0, 1.0]}
    found = ask(server, "/v2/models/m/versions/stable/infer", {"inputs": [tensor]})[1]
    assert float(found["model_version"]) == found["outputs"][0]["data"][0]
    return found["outputs"][0]["data"][0]


def over_generate(server, _):
    return ask(server, "/v2/models/m/versions/stable/generate", {"x": [1.0, 1.0]})[1]["y"][0]


def over_triton(server, stack):
    grpc = importlib.import_module("tritonclient.grpc")
    client = stack.enter_context(
        contextlib.closing(grpc.InferenceServerClient(server.grpc_address))
    )
    tensor = grpc.InferInput("x", [1, 2], "FP32")
    tensor.set_data_from_numpy(np.ones((1, 2), np.float32))
    return client.infer("m", [tensor], "stable").as_numpy("y")[0][0]


ENTRANCES = [over_predict, over_infer, over_generate, over_triton]


@pytest.mark.parametrize("entrance", ENTRANCES, ids=lambda one: one.__name__)
def test_each_version_gets_its_share_of_the_requests(folder, entrance):
    with served(folder, Split({3: 3, 4: 1}, {})) as server, contextlib.ExitStack() as stack:
        found = []
        for _ in range(20):
            found.append(entrance(server, stack))
            ask(server, "/v1/models/m/labels/stable/metadata")  # takes no share
        assert collections.Counter(found) == {3: 15, 4: 5}


@pytest.mark.parametrize("entrance", ENTRANCES, ids=lambda one: one.__name__)
def test_shadow_computes_copies_whose_answers_nobody_gets(folder, entrance):
    with served(folder, Split({3: 100}, {5: 50})) as server, contextlib.ExitStack() as stack:
        assert {entrance(server, stack) for _ in range(10)} == {3}
        wait_until(lambda: shadows_of(server) == {("5", "OK"): 5})
        metrics = samples_of(send(server, "GET", "/metrics")[2].decode())
        kinds = {key: n for key, n in metrics.items() if key[0] == "modelflow_requests_total"}
        assert sum(kinds.values()) == 10


def shadows_of(server):
    return read_shadows(send(server, "GET", "/metrics")[2].decode())


def read_shadows(text):
    return {
        (dict(labels)["version"], dict(labels)["code"]): number
        for (name, *labels), number in samples_of(text).items()
        if name == "modelflow_shadow_requests_total" and number
    }


def test_unknown_label_is_refused(folder):
    with served(folder, Split({3: 100}, {})) as server:
        status, found, _ = ask(server, "/v2/models/m/versions/stabel/infer", {"inputs": []})
        assert (status, "stabel" in found["error"]) == (404, True)
        assert ask(server, "/v2/models/m/versions/stable")[0] == 200


class Shadow:
    """Two versions of a unit: version 1 answers, version 2 waits, fails or writes."""

    def __init__(self, tmp_path):
        self.entered, self.release = threading.Event(), threading.Event()
        for number, unit in ((1, "one"), (2, "two")):
            (tmp_path / "m" / str(number)).mkdir(parents=True)
            (tmp_path / "m" / str(number) / "graph.toml").write_text(
                f"""
[graph]
format = "graphviz"
graphconf = '''digraph g {{ x [type=input]
    u [flowunit="{unit}"]
    y [type=output]
    x -> u -> y }}'''
[serve.input.x]
datatype = "FP32"
shape = [2]
[serve.output.y]
datatype = "FP32"
shape = [2]
"""
            )


@pytest.fixture
def units(tmp_path):
    found = Shadow(tmp_path)

    @modelflow.flowunit(name="one")
    def one(x):
        return x + 1

    found.two = lambda x: x

    @modelflow.flowunit(name="two")
    def two(x):
        return found.two(x)

    return found


def test_failing_shadow_fails_no_request(units, tmp_path):
    def fail(_):
        raise ValueError("no")

    units.two = fail
    with served(tmp_path, Split({1: 100}, {2: 100})) as server:
        for _ in range(3):
            path = "/v1/models/m/labels/stable:predict"
            assert ask(server, path, {"instances": [[1.0, 2.0]]})[1] == {
                "predictions": [[2.0, 3.0]]
            }
        wait_until(lambda: sum(shadows_of(server).values()) == 3)
        assert not [key for key in shadows_of(server) if key[1] == "OK"]


def test_shadow_that_writes_into_its_input_changes_no_answer(units, tmp_path):
    def write(x):
        x[:] = 0
        return x

    units.two = write
    with served(tmp_path, Split({1: 100}, {2: 100})) as server:
        path = "/v1/models/m/labels/stable:predict"
        for _ in range(20):
            assert ask(server, path, {"instances": [[1.0, 2.0]]})[1] == {
                "predictions": [[2.0, 3.0]]
            }


def test_full_shadow_drops_copies_and_delays_neither_requests_nor_the_end(units, tmp_path):
    def wait(x):
        units.entered.set()
        assert units.release.wait(60)
        return x

    units.two = wait
    options = ServeOptions(http_port=0, max_requests=2, drain_timeout=50.0)
    server = Server(config_of(tmp_path, Split({1: 100}, {2: 100})), options)
    with server:
        path = "/v1/models/m/labels/stable:predict"
        for _ in range(6):
            assert ask(server, path, {"instances": [[1.0, 2.0]]})[1] == {
                "predictions": [[2.0, 3.0]]
            }
        assert units.entered.wait(60)
        wait_until(lambda: shadows_of(server) == {("2", "UNAVAILABLE"): 4})
        units.release.set()


def test_copy_has_memory_of_its_own_unless_nobody_can_write():
    class Keeps:
        def infer(self, values, *_):
            self.values = values
            return self

    async def send():
        first: Any = Keeps()
        shadow: Any = Keeps()
        shadows = Shadows()
        values: Any = {"own": np.ones(3), "read": np.ones(3)}
        values["read"].flags.writeable = False
        shadows.with_copies(first, [shadow]).infer(values, lambda _: None)
        await asyncio.sleep(0)
        return {name: np.shares_memory(first.values[name], shadow.values[name]) for name in values}

    assert asyncio.run(send()) == {"own": False, "read": True}


def test_copies_are_cancelled_at_the_end_and_none_follows():
    class Endless:
        def __init__(self):
            self.sent = self.cancelled = 0

        def infer(self, *_):
            self.sent += 1
            return self

        def cancel(self):
            self.cancelled += 1

    shadows: Any = Shadows()
    shadow = Endless()
    shadows.send(shadow, "infer", {}, NO_TERMS)
    shadows.end()
    shadows.send(shadow, "infer", {}, NO_TERMS)
    assert (shadow.sent, shadow.cancelled) == (1, 1)


@pytest.mark.parametrize(
    ("option", "more"),
    [("--replicas", ()), ("--workers", ()), ("--replicas", ("--isolate", "m"))],
    ids=["replicas", "workers", "isolated"],
)
def test_every_process_splits_and_copies(folder, option, more):
    labels = [f"--label=m:stable={one}" for one in ("3@3", "4@1", "5@shadow:50%")]
    with serving(folder, "m=m", "--versions", "all", *labels, *more, option=option) as servers:
        wait_until(lambda: servers.ask("/readyz")[0] == 200)
        found = collections.Counter()
        with servers.connections(2) as connections:
            for connection in connections:
                for _ in range(8):
                    path, document = "/v1/models/m/labels/stable:predict", {"instances": [[1.0, 1]]}
                    answer = servers.ask(path, document, connection=connection)[1]
                    found[answer["predictions"][0][0]] += 1
        assert found == {3: 12, 4: 4}
        wait_until(lambda: read_shadows(servers.ask("/metrics")[1].decode()) == {("5", "OK"): 8})


def test_version_that_is_missing_loses_its_share_with_a_warning(folder):
    labels = [f"--label=m:stable={one}" for one in ("3@1", "9@1")]
    with serving(folder, "m=m", "--versions", "all", *labels, count=1) as servers:
        assert any("versions not loaded: 9; the others take" in line for line in servers.said)
        path, document = "/v1/models/m/labels/stable:predict", {"instances": [[1.0, 1.0]]}
        found = {str(servers.ask(path, document)[1]) for _ in range(4)}
        assert found == {"{'predictions': [[3.0, 3.0]]}"}
