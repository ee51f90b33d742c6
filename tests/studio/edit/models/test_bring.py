"""Tests of models that are brought into a graph."""

import shutil

import numpy as np
import onnx
import pytest

from modelflow import Flow
from modelflow.starters.ready import ready_graphs
from modelflow.studio.edit.models import bring as module
from tests.studio.edit.models.client import SHAPES, picture

NAMES = "models/names.txt"
TWO = picture(("circle", 80, 70, 30), ("square", 220, 160, 42))


def model_file(path, shape, classes, layout):
    """Writes a model whose scores are the means of the channels, as (classes,)."""
    axes = [1, 2] if layout == "hwc" else [2, 3]
    helper, numbers = onnx.helper, onnx.TensorProto
    graph = helper.make_graph(
        [helper.make_node("ReduceMean", ["image", "axes"], ["scores"], keepdims=0)],
        "means",
        [helper.make_tensor_value_info("image", numbers.FLOAT, ["n", *shape])],
        [helper.make_tensor_value_info("scores", numbers.FLOAT, ["n", classes])],
        [helper.make_tensor("axes", numbers.INT64, [2], axes)],
    )
    opsets = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)


def test_the_file_says_how_a_classifier_is_used(client):
    answer = client.ask("model", path="models/shapes.onnx")
    assert answer["engine"] == "onnx"
    assert answer["inputs"] == [{"name": "image", "dtype": "float32", "shape": "(1, 24, 24)"}]
    assert answer["outputs"] == [{"name": "scores", "dtype": "float32", "shape": "(3,)"}]
    guess = answer["guess"]
    why = guess.pop("why")
    assert guess == {
        "use": "classify",
        "width": 24,
        "height": 24,
        "layout": "chw",
        "channels": 1,
        "colours": "gray",
        "range": None,
        "classes": 3,
        "head": None,
        "labels": NAMES,
    }
    assert why == [
        "The input (1, 24, 24) is an image in the layout chw.",
        "The output (3,) has scores of 3 classes.",
        "The file does not say the range of the values; 0 to 1 is usual.",
        "models/names.txt has a label for each of the 3 classes.",
    ]
    assert answer["uses"] == ["classify", "plain"]


def test_the_file_says_how_a_detector_is_used(client):
    answer = client.ask("model", path="models/shape_detect.onnx")
    guess = answer["guess"]
    assert (guess["use"], guess["head"], guess["classes"]) == ("detect", "v8", 1)
    assert (guess["width"], guess["height"], guess["layout"]) == (160, 160, "chw")
    assert (guess["range"], guess["colours"], guess["labels"]) == ("unit", "rgb", None)
    assert answer["uses"] == ["detect", "plain"]


def test_from_an_empty_graph_to_classified_pictures(client, home):
    answer = client.bring("models/shapes.onnx", "classify")
    assert answer["files"] == ["units/shapes/shapes.toml"]
    assert answer["added"] == ["decode", "resize", "scale", "shapes", "best"]
    assert 'entry = "../../models/shapes.onnx"' in (home / answer["files"][0]).read_text()
    pictures = [picture((name, 60, 60, 56), size=(120, 120)) for name in SHAPES]
    best = [result[0]["class"] for result in client.infer(*pictures)]
    assert best == list(SHAPES)
    edges = client.edges()
    assert {("input", "decode"), ("best", "output")} <= edges
    assert ("input", "output") not in edges


def test_a_detector_and_a_classifier_of_each_object_answer_as_the_ready_graph(client):
    client.bring("models/shape_detect.onnx", "detect", {"colours": "bgr"})
    assert "classify_objects" in client.ask("model", path="models/shapes.onnx")["uses"]
    answer = client.bring("models/shapes.onnx", "classify_objects", {"margin": 0.04})
    assert answer["added"] == ["crop", "scale_crop", "shapes", "best", "gather"]
    assert ("gather", "output") in client.edges()
    assert ("original", "output") not in client.edges()
    empty = picture()
    mine = client.infer(TWO, empty)
    with Flow(ready_graphs() / "detect_classify.toml") as flow:
        ready = [flow.infer(one).data for one in (TWO, empty)]
    assert mine == ready
    assert sorted(one["classes"][0]["class"] for one in mine[0]) == ["circle", "square"]
    assert mine[1] == []


def test_a_second_use_of_a_model_has_the_same_unit_and_the_same_picture(client):
    client.bring("models/shape_detect.onnx", "detect")
    client.bring("models/shapes.onnx", "classify")
    answer = client.bring("models/shapes.onnx", "classify_objects")
    assert answer["files"] == []
    nodes = client.nodes()
    assert nodes["shapes_2"]["flowunit"] == nodes["shapes"]["flowunit"] == "shapes"
    assert [name for name, given in nodes.items() if given.get("type") == "input"] == ["input"]
    assert {("decode", "letterbox"), ("decode", "resize"), ("decode", "crop")} <= client.edges()
    assert client.text.count('\ndir = ["units"]') == 1


def test_a_plain_model_is_one_node_at_its_place(client):
    answer = client.bring("models/shapes.onnx", "plain", at=[300, 40])
    assert answer["added"] == ["shapes"]
    assert client.nodes()["shapes"] == {"flowunit": "shapes", "pos": "300,-40!"}
    assert ("input", "output") in client.edges()


def test_every_other_byte_of_the_text_stays(client, home):
    client.text = client.text.replace("\n[graph]", "\n# my graph\n[graph]  # DOT")
    before = client.text.splitlines()
    after = client.bring("models/shapes.onnx", "plain")["text"].splitlines()
    assert [line for line in before if line not in after] == []
    new = [line for line in after if line not in before]
    assert new == ["    shapes[flowunit=shapes]", "[driver]", 'dir = ["units"]']


def test_a_model_in_tables_has_typed_values(client):
    client.text = '[[node]]\nname = "picture"\ntype = "input"\n'
    client.bring("models/shapes.onnx", "classify")
    assert "image_width = 24\n" in client.text
    assert {("picture", "decode"), ("best", "answer")} <= client.edges()


def test_a_model_with_channels_last_sees_the_pixels(client, home):
    model_file(home / "my net.onnx", [8, 8, 3], 3, "hwc")
    guess = client.ask("model", path="my net.onnx")["guess"]
    assert (guess["use"], guess["layout"], guess["channels"]) == ("classify", "hwc", 3)
    answer = client.bring("my net.onnx", "classify", {"range": "raw"})
    assert answer["files"] == ["units/my_net/my_net.toml"]
    (result,) = client.infer(picture(size=(8, 8)))
    assert [one["score"] for one in result] == [30.0, 30.0, 30.0]


@pytest.mark.parametrize(
    ("colours", "range_", "score"),
    [("rgb", "unit", 30 / 255), ("bgr", "unit", 30 / 255), ("bgr", "imagenet_tf", 30 / 127.5 - 1)],
)
def test_values_are_in_the_chosen_range(client, home, colours, range_, score):
    model_file(home / "net.onnx", [8, 8, 3], 3, "hwc")
    client.bring("net.onnx", "classify", {"range": range_, "colours": colours})
    (result,) = client.infer(picture(size=(8, 8)))
    np.testing.assert_allclose([one["score"] for one in result], score, rtol=1e-5)


def test_colours_are_in_the_chosen_order(client, home):
    model_file(home / "net.onnx", [8, 8, 3], 3, "hwc")
    client.bring("net.onnx", "classify", {"range": "raw", "colours": "bgr"})
    (result,) = client.infer(picture(("circle", 4, 4, 40), size=(8, 8)))
    assert [(one["index"], one["score"]) for one in result] == [(0, 240), (1, 200), (2, 180)]


def test_a_model_of_open_shape_needs_settings(client, home):
    model_file(home / "net.onnx", ["h", "w", "c"], 3, "chw")
    guess = client.ask("model", path="net.onnx")["guess"]
    assert (guess["use"], guess["layout"], guess["width"]) == ("classify", None, None)
    said = client.refuse("bring", path="net.onnx", use="classify", settings={})
    assert said == (
        "settings: width: the model does not say it; give the value that the model was trained with"
    )
    settings = {"width": 8, "height": 6}
    said = client.refuse("bring", path="net.onnx", use="classify", settings=settings)
    assert said.startswith("settings: layout: the model does not say it; give hwc")
    assert not (home / "units").exists()
    client.bring("net.onnx", "classify", {**settings, "layout": "chw", "range": "raw"})
    (result,) = client.infer(picture(size=(8, 8)))
    assert len(result) == 3


def test_a_unit_of_the_graphs_folders_is_used_again(client, home):
    shutil.copy(ready_graphs() / "models/shapes/shape_infer.toml", home / "models")
    answer = client.bring("models/shapes.onnx", "classify")
    assert (answer["files"], answer["added"][3]) == ([], "shape_infer")
    assert 'dir = ["models"]' in client.text


def test_the_name_of_a_unit_is_free(client, home):
    shutil.copy(home / "models/shapes.onnx", home / "resize.onnx")
    shutil.copy(home / "models/shapes.onnx", home / "models/model.onnx")
    shutil.copy(home / "models/shapes.onnx", home / "7.onnx")
    assert client.bring("resize.onnx", "plain")["added"] == ["resize_2"]
    assert client.bring("models/model.onnx", "plain")["added"] == ["models"]
    assert client.bring("7.onnx", "plain")["added"] == ["model_7"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"path": "../x.onnx"}, "../x.onnx: is not below"),
        ({"path": "models/nothing.onnx"}, "there is no such file or folder"),
        ({"path": "models/names.txt"}, "which no engine reads"),
        ({"use": "rotate"}, "use: got 'rotate'; expected one of classify, detect"),
        ({"use": "classify_objects"}, "the graph has no boxes to classify"),
        ({"use": "detect"}, "settings: head: the model does not say it"),
        ({"settings": {"hight": 1}}, "settings: got 'hight'; expected some of layout"),
        ({"settings": {"layout": "cwh"}}, "layout: got 'cwh'; expected one of hwc, chw"),
        ({"settings": {"width": "8"}}, "settings: width: got '8'; expected int"),
        ({"settings": {"width": True}}, "settings: width: got True; expected int"),
        ({"settings": {"width": 1 << 20}}, "settings: width: got 1048576"),
        ({"settings": {"range": "clip"}}, "range: clip has a value for each channel of rgb"),
        ({"settings": []}, "settings: got []; expected an object"),
        ({"use": "plain", "at": [1]}, "at: got [1]; expected [x, y]"),
    ],
)
def test_what_cannot_be_brought_in_is_said_and_nothing_is_written(client, home, body, said):
    given = {"path": "models/shapes.onnx", "use": "classify", "settings": {}, **body}
    assert said in client.refuse("bring", **given)
    assert not (home / "units").exists()


def test_a_graph_in_dot_names_no_units(client, home):
    from modelflow.studio.edit.editor import Editor
    from tests.studio.edit.test_editor import asked

    with Editor(home / "graph.dot") as editor:
        body = {"text": "digraph { }", "path": "models/shapes.onnx", "use": "plain"}
        status, found = asked(editor, "bring", body)
    assert status == 422
    assert "a DOT file names no folders of units; write the graph as TOML first" in found["error"]
    assert not (home / "units").exists()


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_a_model_that_says_no_shapes_can_have_any_use(client, home):
    torch = pytest.importorskip("torch")
    example = torch.ones(1, 3, 8, 8)
    means = torch.jit.trace(lambda image: image.mean(dim=(2, 3)), example, check_trace=False)
    torch.jit.save(means, str(home / "means.pt"))
    answer = client.ask("model", path="means.pt")
    assert (answer["engine"], answer["uses"]) == ("torch", ["plain", "classify", "detect"])
    settings = {"width": 8, "height": 8, "layout": "chw", "range": "raw"}
    client.bring("means.pt", "classify", settings)
    (result,) = client.infer(picture(size=(8, 8)))
    assert [one["score"] for one in result] == [30.0, 30.0, 30.0]


def test_a_file_in_the_folder_of_units_is_not_overwritten(client, home):
    folder = home / "units" / "shapes"
    folder.mkdir(parents=True)
    (folder / "shapes.toml").write_text("[base\n")
    answer = client.ask("bring", path="models/shapes.onnx", use="plain")
    assert answer["files"] == ["units/shapes_2/shapes_2.toml"]
    assert (folder / "shapes.toml").read_text() == "[base\n"


def test_a_range_with_its_own_colours_is_a_preset(client, home):
    model_file(home / "net.onnx", [3, 8, 8], 3, "chw")
    client.bring("net.onnx", "classify", {"range": "imagenet_torch"})
    scale = client.nodes()["scale"]
    assert (scale["preset"], scale["output_layout"]) == ("imagenet_torch", "chw")


@pytest.mark.parametrize("task", ["model", "bring"])
def test_a_model_that_is_not_readable_is_refused(client, monkeypatch, task):
    def read(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(module, "read_model_file", read)
    refused = client.refuse(task, path="models/shapes.onnx", use="plain", settings={})
    assert refused == "models/shapes.onnx: cannot be read: Permission denied"
