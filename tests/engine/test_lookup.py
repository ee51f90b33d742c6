import sys
from importlib.metadata import EntryPoint

import pytest

from modelflow import plugins
from modelflow.engine import engine_for, engine_names, find_engine, lookup, read_model_file
from modelflow.engine.tensorflow.library import load_tensorflow
from modelflow.errors import ConfigError, EngineError, MissingDependencyError
from modelflow.serve.repository.config import ServeConfig


@pytest.fixture
def plug_ins(monkeypatch):
    """Returns a function that registers entry points, as an installed package does."""

    def install(**values):
        points = [EntryPoint(name, value, lookup.GROUP) for name, value in values.items()]
        monkeypatch.setattr(plugins, "find_entry_points", lambda group: points)
        lookup.ENGINES.refresh()

    yield install
    monkeypatch.undo()
    lookup.ENGINES.refresh()


def test_unknown_engine_names_the_nearest():
    with pytest.raises(EngineError, match="unknown engine 'tensorfow'; did you mean 'tensorflow'"):
        find_engine("tensorfow")


def test_engine_is_one_instance():
    assert find_engine("tensorflow") is find_engine("tensorflow")


def test_plug_in_is_found_by_name_and_by_file(plug_ins, tmp_path):
    plug_ins(doubling="tests.engine.numpy_engine:NumpyEngine")
    path = tmp_path / "model.shape"
    path.write_text("? 2")
    assert engine_names()[-1] == "doubling"  # after modelflow's own engines
    assert engine_for(path) == "doubling"
    assert [port.shape for port in read_model_file(path).inputs] == ["(2,)"]


def test_plug_in_that_does_not_import_is_named(plug_ins):
    plug_ins(broken="tests.engine.no_such_module:Engine")
    with pytest.raises(EngineError, match=r"'broken'.*no_such_module.*cannot be imported"):
        find_engine("broken")


def test_plug_in_that_is_no_engine_is_refused(plug_ins):
    plug_ins(odd="pathlib:Path")
    with pytest.raises(EngineError, match=r"'odd'.*expected a subclass"):
        find_engine("odd")


def test_file_without_engine_says_so(tmp_path):
    path = tmp_path / "model.xyz"
    path.write_bytes(b"x")
    with pytest.raises(EngineError, match=r"a '\.xyz' file, which no engine reads"):
        engine_for(path)
    with pytest.raises(EngineError, match=r"a folder without saved_model\.pb"):
        engine_for(tmp_path)


KINDS = {
    "iris.joblib": ("file of joblib, as scikit-learn has them", "sklearn"),
    "iris.pkl": ("Python pickle", "sklearn"),
    "iris.pickle": ("Python pickle", "sklearn"),
    "iris.ubj": ("model of XGBoost", "xgboost"),
    "iris.json": ("model of XGBoost", "xgboost"),
    "iris.txt": ("model of LightGBM", "python"),
    "iris.safetensors": (r"weights without their network \(safetensors\)", "safetensors"),
    "iris.gguf": ("model of llama.cpp", "python"),
    "iris.npz": ("arrays of NumPy", "python"),
}
STARTS = {".json": '{"learner":{}}', ".txt": "tree\nversion=v4\n"}


@pytest.mark.parametrize("name", KINDS)
def test_a_file_of_another_library_leads_to_a_class_for_it(tmp_path, name):
    path = tmp_path / name
    path.write_text(STARTS.get(path.suffix, "x"))
    kind, template = KINDS[name]
    command = f"modelflow new model iris --for {template}$"
    with pytest.raises(EngineError, match=f"{kind}, which no engine reads.*{command}"):
        engine_for(path)


@pytest.mark.parametrize("name", ["numpy", "class", "string"])
def test_the_command_for_a_class_names_no_module_and_no_word_of_python(tmp_path, name):
    path = tmp_path / f"{name}.npz"
    path.touch()
    with pytest.raises(EngineError, match=f"modelflow new model model_{name} --for python$"):
        engine_for(path)


@pytest.mark.parametrize(
    ("architecture", "template"),
    [("BertModel", "embedding"), ("ViTForImageClassification", "image")],
)
def test_a_folder_of_transformers_leads_to_a_class_for_it(tmp_path, architecture, template):
    folder = tmp_path / "2 Nets-a.b"
    folder.mkdir()
    (folder / "config.json").write_text(f'{{"architectures": ["{architecture}"]}}')
    command = f"modelflow new model model_2_nets_a --for transformers-{template}"
    text = rf"2 Nets-a.b.*a model of Transformers.*{command}"
    with pytest.raises(EngineError, match=text):
        engine_for(folder)
    with pytest.raises(ConfigError, match=text):
        ServeConfig(repositories=[folder]).check()


@pytest.mark.parametrize(
    ("model", "weights", "others"),
    [
        ("net.onnx", ["net.onnx.data", "net.onnx_data_1"], ["net.bin", "other.onnx.data"]),
        ("net.xml", ["net.bin"], ["other.bin", "net.txt"]),
        ("net.pt", [], ["net.bin"]),
    ],
)
def test_files_of_weights_belong_to_their_model(tmp_path, model, weights, others):
    for name in (model, *weights):
        (tmp_path / name).write_bytes(b"x")
    assert [path.name for path in lookup.weight_files(tmp_path / model)] == weights
    version = tmp_path / "versions" / "1"
    version.mkdir(parents=True)
    for name in (model, *weights):
        (version / name).write_bytes(b"x")
    assert lookup.newest_path(tmp_path / "versions") == version / model
    for name in others:
        (tmp_path / name).write_bytes(b"x")
    assert [path.name for path in lookup.weight_files(tmp_path / model)] == weights


def test_another_config_beside_models_is_no_model_of_transformers(tmp_path):
    (tmp_path / "config.json").write_text('{"owner": "me"}')
    ServeConfig(repositories=[tmp_path]).check()


def test_missing_file_points_to_the_readme_beside_it(tmp_path):
    path = tmp_path / "model.pb"
    with pytest.raises(EngineError, match=r"there is no such file or folder$"):
        read_model_file(path)
    (tmp_path / "README.md").write_text("how")
    with pytest.raises(EngineError, match=r"README\.md says how to make it$"):
        read_model_file(path)


def test_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    with pytest.raises(
        MissingDependencyError, match=r"pip install 'modelflow-graph\[tensorflow\]'"
    ):
        load_tensorflow()
