"""Models that one flow closes and the next one gets."""

import os

import pytest

from modelflow.engine import LoadRequest
from modelflow.engine.loading import KeptModels, load_model
from tests.engine.numpy_engine import NumpyEngine


@pytest.fixture
def engine():
    return NumpyEngine()


@pytest.fixture
def path(tmp_path):
    found = tmp_path / "model.shape"
    found.write_text("? 4")
    return found


def closed(engine):
    return [model.closed for model in engine.loaded]


def test_a_model_that_is_the_same_is_loaded_once(engine, path):
    with KeptModels() as kept:
        for _ in range(3):
            model = load_model(engine, LoadRequest(path))
            assert model.inputs[0].name == "x"
            model.close()
            assert closed(engine) == [0]
        load_model(engine, LoadRequest(path))
        kept.drop()
        assert closed(engine) == [0]  # the model is in use
    assert closed(engine) == [0]


def test_what_nobody_asked_for_again_is_closed(engine, path):
    with KeptModels() as kept:
        load_model(engine, LoadRequest(path)).close()
        kept.drop()
        assert closed(engine) == [1]
        load_model(engine, LoadRequest(path)).close()
        assert closed(engine) == [1, 0]
    assert closed(engine) == [1, 1]


def test_two_that_are_in_use_at_once_are_two(engine, path):
    with KeptModels():
        first, second = (load_model(engine, LoadRequest(path)) for _ in range(2))
        first.close()
        second.close()
        assert len(engine.loaded) == 2
    assert closed(engine) == [1, 1]


def change_time(path):
    os.utime(path, ns=(1, 1))


def change_size(path):
    path.write_text("? 4 4")


def add_weights(path):
    path.with_name("model.shape.data").write_text("weights")


@pytest.mark.parametrize("change", [change_time, change_size, add_weights])
def test_a_model_whose_files_have_changed_is_loaded_anew(engine, path, change):
    with KeptModels():
        load_model(engine, LoadRequest(path)).close()
        change(path)
        load_model(engine, LoadRequest(path)).close()
        assert len(engine.loaded) == 2


def test_a_folder_is_known_by_all_its_files(engine, path, tmp_path):
    folder = tmp_path / "folder"
    (folder / "variables").mkdir(parents=True)
    weights = folder / "variables" / "weights"
    weights.write_text("1")
    engine.load = lambda request: engine.__class__.load(engine, LoadRequest(path))
    with KeptModels():
        load_model(engine, LoadRequest(folder)).close()
        load_model(engine, LoadRequest(folder)).close()
        weights.write_text("22")
        load_model(engine, LoadRequest(folder)).close()
        assert len(engine.loaded) == 2


def test_other_options_are_another_model(engine, path):
    with KeptModels():
        load_model(engine, LoadRequest(path)).close()
        load_model(engine, LoadRequest(path, batch_sizes=(4,))).close()
        assert len(engine.loaded) == 2


def test_outside_nothing_is_kept(engine, path):
    with KeptModels():
        late = load_model(engine, LoadRequest(path))
    late.close()
    load_model(engine, LoadRequest(path)).close()
    assert closed(engine) == [1, 1]


def test_one_keeps_at_a_time():
    with KeptModels(), pytest.raises(RuntimeError, match="being kept already"), KeptModels():
        pass
