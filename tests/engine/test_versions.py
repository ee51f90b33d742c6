"""Tests of the versions of a model, and of the change from one version to the next."""

import threading

import numpy as np
import pytest

import modelflow
from modelflow.engine.lookup import choose_versions, find_versions
from modelflow.errors import EngineError, FlowUnitError, GraphError
from tests.engine.conftest import save_onnx

ITEM = np.ones(2, np.float32)


def write(path, factor):
    """Returns a model that multiplies by ``factor``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    factors = {"k": np.array([factor], np.float32)}
    nodes = [("Mul", ["x", "k"], ["y"])]
    return save_onnx(path, nodes, {"x": ["n", 2]}, {"y": ["n", 2]}, factors)


@pytest.fixture
def folder(tmp_path):
    """Returns versions 1, 2 and 10, which multiply by their numbers."""
    for version in (1, 2, 10):
        write(tmp_path / "m" / str(version) / "model.onnx", version)
    (tmp_path / "m" / "notes").mkdir()
    return tmp_path / "m"


def answer(model, **meta):
    return float(model.infer([modelflow.Buffer(ITEM, meta)])[0].data[0])


def test_versions_are_the_folders_with_numbers(folder):
    assert list(find_versions(folder)) == [1, 2, 10]
    assert find_versions(folder)[2] == folder / "2" / "model.onnx"
    assert choose_versions(folder, "") == {10: folder / "10" / "model.onnx"}
    assert list(choose_versions(folder, "10, 1")) == [1, 10]


def test_versions_may_be_written_with_zeros_in_front(folder):
    (folder / "10").rename(folder / "0010")
    write(folder / "002" / "model.onnx", 3)
    found = find_versions(folder)
    assert list(found) == [1, 2, 10]
    assert found[10] == folder / "0010" / "model.onnx"
    assert found[2] == folder / "2" / "model.onnx"


def test_saved_models_folder_is_the_version_itself(saved_model, tmp_path):
    (tmp_path / "3").symlink_to(saved_model)
    assert choose_versions(tmp_path, "") == {3: tmp_path / "3"}
    with modelflow.Model(tmp_path, outputs=["scores"]) as model:
        assert model.infer([np.zeros(4, np.float32)])[0].data.shape == (3,)


@pytest.mark.parametrize("version", ["3", "1,x"])
def test_unknown_version_lists_those_there_are(folder, version):
    with pytest.raises(EngineError, match=r"no version '.'; the versions are: 1, 2, 10"):
        choose_versions(folder, version)


def test_version_of_a_model_without_any_is_an_error(folder):
    with pytest.raises(EngineError, match="there are no versions"):
        choose_versions(folder / "1" / "model.onnx", "1")


def test_newest_version_runs_unless_another_is_named(folder):
    with modelflow.Model(folder) as model:
        assert answer(model) == 10
    with modelflow.Model(folder, version="2") as model:
        assert answer(model) == 2


def test_of_several_versions_a_buffer_chooses(folder):
    with modelflow.Model(folder, version="1,2", batch_size=8) as model:
        assert answer(model) == 2
        assert answer(model, model_version=1) == 1
        found = model.infer_batch(
            [[modelflow.Buffer(ITEM, {"model_version": v}) for v in (1, 2, 7, 1)]]
        )[0]
        assert [b.error or float(b.data[0]) for b in (found[0], found[1], found[3])] == [1, 2, 1]
        assert "got 7; the versions loaded are: 1, 2" in found[2].get_error_msg()


def test_reload_takes_the_newest_version(folder):
    with modelflow.Model(folder) as model:
        assert answer(model) == 10
        write(folder / "11" / "model.onnx", 11)
        assert answer(model) == 10
        model.reload()
        assert answer(model) == 11


def test_reload_that_fails_leaves_the_old_one(folder):
    with modelflow.Model(folder) as model:
        (folder / "12").mkdir()
        (folder / "12" / "model.onnx").write_bytes(b"no model")
        with pytest.raises(FlowUnitError, match=r"12/model\.onnx.*does not load it") as caught:
            model.reload()
        assert caught.value.phase == "reload"
        assert answer(model) == 10


def test_reload_under_load_loses_and_fails_nothing(folder):
    coming = range(11, 15)
    for version in coming:
        write(folder.parent / str(version) / "model.onnx", version)
    stop = threading.Event()
    answers = []

    def ask(model):
        while not stop.is_set():
            answers.append(answer(model))

    with modelflow.Model(folder, batch_size=4) as model:
        threads = [threading.Thread(target=ask, args=(model,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for version in coming:
            (folder.parent / str(version)).rename(folder / str(version))
            model.reload()
            assert answer(model) == version
        stop.set()
        for thread in threads:
            thread.join()
    assert set(answers) <= {10, *coming}
    assert answers


def test_nothing_to_reload_is_said(folder):
    @modelflow.flowunit
    def same(value: object) -> object:
        return value

    graph = "digraph { i [type=input] same o [type=output] i -> same -> o }"
    with modelflow.Flow(graph, units=[same]) as flow:
        with pytest.raises(FlowUnitError, match="unit 'same' has nothing to reload"):
            flow.reload("same")
        with pytest.raises(KeyError, match="no node 'sam'; did you mean 'same'"):
            flow.reload("sam")
        flow.reload()


def test_closed_model_cannot_be_reloaded(folder):
    model = modelflow.Model(folder)
    with model:
        pass
    with pytest.raises(modelflow.errors.StreamClosed):
        model.reload()


def test_missing_version_is_an_error_of_the_graph_or_of_open(folder):
    with pytest.raises((EngineError, GraphError, modelflow.errors.FlowFailed)):
        modelflow.Model(folder, version="5").start()
