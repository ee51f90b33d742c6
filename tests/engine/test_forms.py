"""Every form of model gives the same answers, and says its ports."""

import json
import zipfile

import numpy as np
import pytest

from modelflow.engine import LoadRequest, engine_for, find_engine, read_model_file
from modelflow.engine.inference import inference_spec
from modelflow.engine.tensorflow.forms.signature import read_signature
from modelflow.errors import EngineError
from modelflow.testing import run_unit
from tests.engine.conftest import expected, freeze

ITEMS = [np.arange(4, dtype=np.float32) + i for i in range(5)]

FORMS = ["frozen_graph", "saved_model", "version_1_model", "keras_model", "h5_model"]


def load(path, inputs=(), outputs=(), **options):
    engine = find_engine("tensorflow")
    request = LoadRequest(
        path,
        options=engine.options(**options),
        inputs=tuple(inputs),
        outputs=tuple(outputs),
    )
    return engine.load(request)


@pytest.mark.parametrize("form", FORMS)
def test_model_of_each_form_gives_its_answers(form, request):
    file = read_model_file(request.getfixturevalue(form))
    assert file.engine == "tensorflow"
    (port,) = file.inputs
    assert (port.dtype, port.shape) == ("float32", "(4,)")
    spec = inference_spec(file, "net")
    results = run_unit(spec, {port.name: ITEMS})
    scores = next(name for name in results if "scores" in name)
    for item, result in zip(ITEMS, results[scores], strict=True):
        np.testing.assert_allclose(result.data, expected(item), rtol=1e-6)


def test_frozen_graph_ports_are_its_tensors(frozen_graph):
    file = read_model_file(frozen_graph)
    assert [p.name for p in file.inputs] == ["net/in"]
    assert [p.name for p in file.outputs] == ["net/scores/Add"]


@pytest.mark.parametrize("suffix", ["", ":0"])
def test_frozen_graph_takes_names_with_and_without_index(frozen_graph, suffix):
    model = load(frozen_graph, ["net/in" + suffix], ["net/scores/Add" + suffix])
    found = model.run({"net/in" + suffix: np.stack(ITEMS)})
    np.testing.assert_allclose(found["net/scores/Add" + suffix][1], expected(ITEMS[1]))
    model.close()


def test_saved_model_ports_are_the_keys_of_the_signature(saved_model):
    file = read_model_file(saved_model)
    assert [p.name for p in file.inputs] == ["features"]
    assert [p.name for p in file.outputs] == ["again", "scores"]


def test_saved_model_signature_option_chooses(saved_model):
    model = load(saved_model, signature="negative")
    found = model.run({"features": np.stack(ITEMS)})["scores"]
    np.testing.assert_allclose(found[2], -expected(ITEMS[2]))
    model.close()


def test_saved_model_unknown_signature_lists_those_there_are(saved_model):
    with pytest.raises(EngineError, match="no signature 'negativ'; did you mean 'negative'"):
        load(saved_model, signature="negativ")


def test_saved_model_takes_tensor_names(saved_model):
    signature = read_signature(saved_model, "")
    features, scores = signature.input_tensors["features"], signature.output_tensors["scores"]
    model = load(saved_model, [features], [scores])
    found = model.run({features: np.stack(ITEMS)})[scores]
    np.testing.assert_allclose(found[3], expected(ITEMS[3]))
    model.close()


def test_version_1_model_takes_any_tensor(version_1_model):
    model = load(version_1_model, ["features"], ["hidden", "scores"])
    found = model.run({"features": np.stack(ITEMS)})
    np.testing.assert_allclose(found["scores"] - found["hidden"], np.tile([0.5, 0, -0.5], (5, 1)))
    model.close()


def test_text_model_with_table_runs_as_a_function(text_model):
    file = read_model_file(text_model)
    assert [(p.name, p.dtype) for p in file.inputs] == [("word", "string")]
    results = run_unit(inference_spec(file, "words"), {"word": ["dog", b"cat", "cow", 3]})
    assert [int(b.data) for b in results["number"][:3]] == [2, 1, -1]
    assert [b.data for b in results["loud"][:3]] == [b"DOG", b"CAT", b"COW"]
    assert "got int; expected text" in results["loud"][3].get_error_msg()


def test_keras_dropout_is_off(keras_model):
    model = load(keras_model)
    ones = np.ones((64, 4), np.float32)
    np.testing.assert_allclose(model.run({"features": ones})["scores"], [expected(ones[0])] * 64)
    model.close()


@pytest.mark.parametrize("suffix", [".keras", ".h5"])
def test_keras_sequential_model_runs(tf, tmp_path, suffix):
    layers = tf.keras.layers
    network = tf.keras.Sequential([tf.keras.Input((4,), name="row"), layers.Dense(3, name="last")])
    network.set_weights([np.eye(4, 3, dtype=np.float32), np.float32([1, 2, 3])])
    path = tmp_path / f"row{suffix}"
    network.save(path)
    model = load(path)
    assert [s.name for s in model.inputs] == ["row"]
    found = model.run({"row": np.ones((2, 4), np.float32)})
    np.testing.assert_allclose(found["last"], [[2, 3, 4]] * 2)
    model.close()


def test_keras_sequential_model_of_text_runs_as_a_function(tf, tmp_path):
    lookup = tf.keras.layers.StringLookup(vocabulary=["cat", "dog"], name="number")
    path = tmp_path / "word.keras"
    tf.keras.Sequential([tf.keras.Input((), dtype="string", name="word"), lookup]).save(path)
    model = load(path)
    found = model.run({"word": np.array([b"dog", b"cow"], object)})
    assert found["number"].tolist() == [2, 0]
    model.close()


@pytest.mark.parametrize("suffix", [".keras", ".h5"])
def test_keras_file_with_python_code_is_refused(tf, tmp_path, suffix):
    layers = tf.keras.layers
    network = tf.keras.Sequential([tf.keras.Input((4,)), layers.Lambda(lambda x: x + 1)])
    path = tmp_path / f"code{suffix}"
    network.save(path)
    with pytest.raises(EngineError, match=r"(?i)lambda"):
        load(path)


@pytest.mark.parametrize(
    ("form", "what", "ports"),
    [
        ("frozen_graph", "no input 'net/inn'; did you mean 'net/in'", (["net/inn"], [])),
        ("frozen_graph", r"outputs are: net/scores/Add \(float32 \(\?, 3\)\)", ([], ["score"])),
        ("saved_model", "no input 'feature'; did you mean 'features'", (["feature"], [])),
        ("saved_model", "no output 'y'.*scores", ([], ["y"])),
        ("version_1_model", "no output 'z'.*scores", ([], ["z"])),
        ("keras_model", "no input 'feature'; did you mean 'features'", (["feature"], [])),
        ("keras_model", r"outputs are: scores \(float32 \(\?, 3\)\)", ([], ["out"])),
    ],
)
def test_unknown_port_lists_the_models_own(form, what, ports, request):
    with pytest.raises(EngineError, match=what):
        load(request.getfixturevalue(form), *ports)


def test_input_without_port_is_named(two_ports):
    with pytest.raises(EngineError, match="need the input 'b', which no port feeds"):
        load(two_ports, ["a"], ["sum"])


def test_input_that_no_output_needs_may_be_left_out(two_ports):
    model = load(two_ports, ["a"], ["same"])
    assert model.run({"a": np.ones((2, 2), np.float32)})["same"].shape == (2, 2)
    model.close()


BAD_FILES = [
    ("empty.pb", b"", "an empty file; expected a frozen TensorFlow graph"),
    ("zip.pb", b"PK\x03\x04" + bytes(50), "a zip archive"),
    ("lfs.pb", b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer"),
    ("random.pb", b"\xff" * 100, "100 bytes of another format, or cut off"),
    ("text.keras", b"{}", r"a text file \(JSON\)"),
    ("empty.h5", b"", "an empty file"),
]


@pytest.mark.parametrize(("name", "content", "what"), BAD_FILES)
def test_file_that_is_no_model_says_what_it_looks_like(tmp_path, name, content, what):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(EngineError, match=what) as caught:
        load(path)
    assert str(path) in str(caught.value)


def test_frozen_graph_cut_off_is_an_error(frozen_graph, tmp_path):
    path = tmp_path / "cut.pb"
    path.write_bytes(frozen_graph.read_bytes()[:-20])
    with pytest.raises(EngineError, match="or cut off"):
        load(path)


def test_saved_model_cut_off_is_an_error(saved_model, tmp_path):
    path = tmp_path / "cut"
    path.mkdir()
    whole = (saved_model / "saved_model.pb").read_bytes()
    (path / "saved_model.pb").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(EngineError, match="expected the description of a SavedModel"):
        load(path)


def test_saved_model_without_variables_is_an_error(saved_model, tmp_path):
    (tmp_path / "saved_model.pb").write_bytes((saved_model / "saved_model.pb").read_bytes())
    with pytest.raises(EngineError, match="may be incomplete"):
        load(tmp_path)


def test_saved_models_inner_file_points_to_its_folder(saved_model):
    with pytest.raises(EngineError, match=f"give its folder, {saved_model}"):
        load(saved_model / "saved_model.pb")


def test_graph_with_variables_is_not_frozen(tf, tmp_path):
    def build(v1):
        v1.identity(v1.get_variable("w", [2]), name="y")

    with pytest.raises(EngineError, match=r"has variables .*not frozen"):
        load(freeze(tf, tmp_path / "variables.pb", build))


def test_keras_model_cut_off_is_an_error(keras_model, tmp_path):
    path = tmp_path / "cut.keras"
    path.write_bytes(keras_model.read_bytes()[:1000])
    with pytest.raises(EngineError, match=r"a zip archive.*does not load"):
        load(path)


def test_keras_archive_with_unknown_class_is_an_error(tmp_path):
    path = tmp_path / "odd.keras"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("config.json", json.dumps({"class_name": "X", "module": "os"}))
        archive.writestr("metadata.json", "{}")
    with pytest.raises(EngineError, match="does not load"):
        load(path)


def test_engine_is_chosen_by_the_file(frozen_graph, saved_model, keras_model, h5_model):
    for path in (frozen_graph, saved_model, keras_model, h5_model):
        assert engine_for(path) == "tensorflow"
