import asyncio
import threading
from pathlib import Path

import numpy as np
import pytest

from modelflow import Flow, Model
from modelflow.errors import ConfigError, EngineError, FlowUnitError, GraphError
from modelflow.starters.ready import ready_graphs

pytest.importorskip("tensorflow")
DIGITS = ready_graphs() / "models" / "digits"


def image(number):
    """Returns a picture that no other client sends."""
    return np.random.default_rng(number).random((8, 8, 1)).astype(np.float32)


@pytest.fixture(scope="module")
def model():
    with Model(DIGITS, "digits_infer", batch_size=8, batch_timeout_ms=20) as running:
        yield running


@pytest.fixture(scope="module")
def alone(model):
    """Returns the model's results for pictures 0..31, each sent alone."""
    return [model.infer([image(number)])[0].data for number in range(32)]


def test_infer_gives_a_buffer_an_output(model):
    (scores,) = model.infer([image(1)])
    assert scores.data.shape == (10,)
    assert model.inputs == ("image",)
    assert model.outputs == ("scores",)


def test_inputs_may_be_named(model, alone):
    (scores,) = model.infer({"image": image(3)})
    assert np.allclose(scores.data, alone[3], atol=1e-6)


def test_infer_batch_answers_in_order_and_keeps_errors_apart(model, alone):
    (column,) = model.infer_batch([[image(0), np.zeros((3, 3), np.float32), image(2)]])
    assert np.allclose(column[0].data, alone[0], atol=1e-6)
    assert "expected" in str(column[1].error)
    assert np.allclose(column[2].data, alone[2], atol=1e-6)


def test_32_threads_get_their_own_answers_in_merged_batches(model, alone):
    before = model.stats()
    wrong = []

    def ask(number):
        for _ in range(10):
            (scores,) = model.infer([image(number)])
            if not np.allclose(scores.data, alone[number], atol=1e-5):
                wrong.append(number)

    threads = [threading.Thread(target=ask, args=(n,), name=f"modelflow/t{n}") for n in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    after = model.stats()
    assert not wrong
    assert after.buffers - before.buffers == 320
    assert (after.buffers - before.buffers) / (after.batches - before.batches) > 4


def test_32_threads_share_the_batches_of_a_flow(alone):
    graph = {
        "driver": {"dir": [str(DIGITS)]},
        "node": [
            {"name": "image", "type": "input"},
            {"name": "digits_infer", "batch_size": 8, "batch_timeout_ms": 20},
            {"name": "scores", "type": "output"},
        ],
        "edge": [{"from": "image", "to": "digits_infer"}, {"from": "digits_infer", "to": "scores"}],
    }
    wrong = []
    with Flow(graph) as flow:

        def ask(number):
            for _ in range(10):
                scores = flow.infer(image(number)).data
                if not np.allclose(scores, alone[number], atol=1e-5):
                    wrong.append(number)

        threads = [
            threading.Thread(target=ask, args=(n,), name=f"modelflow/t{n}") for n in range(32)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        stats = flow.stats()["digits_infer"]
    assert not wrong
    assert stats.mean_batch_size > 4


def test_ainfer_merges_too(model, alone):
    async def ask():
        return await asyncio.gather(*(model.ainfer([image(number)]) for number in range(32)))

    for number, (scores,) in enumerate(asyncio.run(ask())):
        assert np.allclose(scores.data, alone[number], atol=1e-5)


def test_a_model_file_alone_will_do(alone):
    with Model(DIGITS / "saved_model", batch_size=4) as model:
        (scores,) = model.infer([image(5)])
    assert np.allclose(scores.data, alone[5], atol=1e-5)


def test_a_wrong_item_fails_alone_with_what_was_expected(model):
    with pytest.raises(FlowUnitError, match=r"float32.*float64|float64.*float32"):
        model.infer([np.zeros((8, 8, 1), np.float64)])
    with pytest.raises(ValueError, match="got 2 values; expected a value for each input"):
        model.infer([1, 2])
    with pytest.raises(KeyError, match=r"got the inputs \['imgae'\]"):
        model.infer({"imgae": 1})
    with pytest.raises(ValueError, match=r"got \[1, 2\] items|expected a value for each input"):
        model.infer_batch([[1], [1, 2]])


def test_what_is_wrong_is_said_before_anything_runs(tmp_path):
    with pytest.raises(EngineError, match="no such file or folder"):
        Model(tmp_path / "nothing.pb")
    with pytest.raises(ConfigError, match="no unit 'digits_infre'; did you mean 'digits_infer'"):
        Model(DIGITS, "digits_infre")
    with pytest.raises(GraphError, match="unknown option 'batch_timeout'"):
        Model(DIGITS, "digits_infer", batch_timeout=5)
    with pytest.raises(GraphError, match="batch_size: got 0"):
        Model(DIGITS, "digits_infer", batch_size=0)


def test_a_folder_with_several_units_needs_a_name():
    with pytest.raises(
        ConfigError, match=r"expected one unit \(units: digit_image, digits_infer, digits_report"
    ):
        Model(Path(DIGITS))
