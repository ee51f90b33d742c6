"""TensorFlow Serving's ``batching_config.txt``."""

import pytest

from modelflow.errors import ConfigError
from modelflow.serve.batching_parameters import read_batching_parameters
from modelflow.serve.repository.config import ServeConfig
from modelflow.serve.repository.source import ModelSettings
from modelflow.serve.server import ServeOptions, Server
from tests.serve.clients import ask
from tests.serve.models_on_disk import write_model

WHOLE = """
max_batch_size { value: 16 }
batch_timeout_micros { value: 1500 }
max_enqueued_batches { value: 10 }
num_batch_threads { value: 2 }
allowed_batch_sizes: 4
allowed_batch_sizes: 16
pad_variable_length_inputs: true
thread_pool_name { value: "pool" }
"""


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "batching_config.txt"
        path.write_text(text)
        return path

    return write


def test_every_parameter_is_an_attribute_of_the_node(file):
    assert read_batching_parameters(file(WHOLE)) == {
        "batch_size": 16,
        "batch_timeout_ms": 1.5,
        "threads": 2,
        "queue_size": 160,
        "allowed_batch_sizes": [4, 16],
        "pad_variable": True,
    }
    assert read_batching_parameters(file("")) == {}
    assert read_batching_parameters(file("batch_timeout_micros { value: 0 }")) == {
        "batch_timeout_ms": 0.0
    }


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("max_execution_batch_size { value: 8 }", ["max_execution_batch_size"]),
        (
            "enable_large_batch_splitting { value: true } some_policy: 'a { b: } c' # more: 1",
            ["enable_large_batch_splitting", "some_policy"],
        ),
        ("low_priority_allowed_batch_sizes: [1, 2]", ["low_priority_allowed_batch_sizes"]),
        ("some < inner { deep: 1 } >", ["some"]),
    ],
)
def test_keys_of_newer_versions_are_left_out_with_a_warning(file, text, keys, caplog):
    path = file(f"{text}\nmax_batch_size {{ value: 16 }}")
    assert read_batching_parameters(path) == {"batch_size": 16}
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert said == [f"{path}: {key} is not supported and is ignored" for key in keys]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("max_batch_sice { value: 3 }", "did you mean 'max_batch_size'"),
        ("max_batch_size { value: 0 }", "max_batch_size: got 0; expected 1 or more"),
        ("max_batch_size: 3", "batching_config.txt:1:"),
        ("allowed_batch_sizes: [8, 4]", r"allowed_batch_sizes: got \[8, 4\]; expected rising"),
        ("max_batch_size {value: 9} allowed_batch_sizes: 8", r"the last one max_batch_size \(9\)"),
        ("max_enqueued_batches { value: 3 }", "without max_batch_size"),
    ],
)
def test_what_is_wrong_is_said_with_the_nearest_key(file, text, said):
    with pytest.raises(ConfigError, match=said):
        read_batching_parameters(file(text))


def test_a_file_that_is_not_there_says_so(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        read_batching_parameters(tmp_path / "none.txt")


def test_a_model_is_batched_so_unless_its_node_is_told_otherwise(file, tmp_path):
    path = write_model(tmp_path / "m.onnx", 2)
    batching = read_batching_parameters(file(WHOLE.replace("pad_variable_length_inputs: true", "")))
    for overrides, threads in (({}, 2), ({"model.threads": 1}, 1)):
        settings = ModelSettings(batching=batching, overrides=overrides)
        with Server(
            ServeConfig({"m": path}, settings=settings), ServeOptions(http_port=0)
        ) as server:
            stage = server.model("m").flow.scheduler.plan.nodes["model"]
            assert (stage.batch_size, stage.batch_timeout) == (16, 0.0015)
            assert (stage.threads, stage.bounds) == (threads, (160,))
            assert stage.unit.allowed_batch_sizes == (4, 16)
            body = {"instances": [[1.0, 2.0]] * 3}
            found = ask(server, "/v1/models/m:predict", body)[1]["predictions"]
            assert found == [[2.0, 4.0]] * 3
            assert server.model("m").flow.stats()["model"].figures["batching"]["padding"] == 1
