"""Tests of the guess of a model's use."""

import pytest

from modelflow.studio.edit.models.guess import guess_use
from modelflow.unit.port import Port


def guessed(shape, *outputs, dtype="float32", names=None):
    names = names or [f"out{number}" for number in range(len(outputs))]
    ports = [Port(name, "", "float32", one) for name, one in zip(names, outputs, strict=True)]
    return guess_use([Port("image", "", dtype, shape)], ports)


CHW = "(3, 640, 640)"


@pytest.mark.parametrize(
    ("shape", "layout", "channels", "colours", "size"),
    [
        ("(3, 224, 320)", "chw", 3, None, (320, 224)),
        ("(224, 320, 3)", "hwc", 3, None, (320, 224)),
        ("(1, 28, 28)", "chw", 1, "gray", (28, 28)),
        ("(28, 28, 1)", "hwc", 1, "gray", (28, 28)),
        ("(3, ?, ?)", "chw", 3, None, (None, None)),
        ("(?, ?, ?)", None, None, None, (None, None)),
        ("(3, 224, 3)", None, None, None, (None, None)),
    ],
)
def test_the_shape_of_the_input_says_layout_and_size(shape, layout, channels, colours, size):
    guess = guessed(shape, "(10,)")
    settings = guess.settings
    assert (guess.use, settings["classes"]) == ("classify", 10)
    assert (settings["layout"], settings["channels"], settings["colours"]) == (
        layout,
        channels,
        colours,
    )
    assert (settings["width"], settings["height"]) == size


@pytest.mark.parametrize(
    ("outputs", "head", "classes"),
    [
        (["(84, 8400)"], "v8", 80),
        (["(84, ?)"], "v8", 80),
        (["(8400, 84)"], "v8", 80),
        (["(300, 6)"], "v8", None),
        (["(?, 6)"], "v8", None),
        (["(25200, 85)"], "v5", 80),
        (["(25200, 6)"], "v5", 1),
        (["(8400, 85)"], "x", 80),
        (["(8400, 6)"], "x", 1),
        (["(84, 8500)"], "v8", 80),
        (["(84, 34000)"], "v8", 80),
        (["(5, 6400)"], "v8", 1),
        (["(300, 4)", "(300, 80)"], "rtdetr", 80),
        (["(255, 20, 20)", "(255, 80, 80)", "(255, 40, 40)"], "v5", 80),
    ],
)
def test_the_shapes_of_the_outputs_say_the_head(outputs, head, classes):
    guess = guessed(CHW, *outputs)
    assert (guess.use, guess.uses) == ("detect", ["detect", "plain"])
    assert (guess.settings["head"], guess.settings["classes"]) == (head, classes)
    is_raw = head == "x"
    assert guess.settings["range"] == ("raw" if is_raw else "unit")
    assert guess.settings["colours"] == ("bgr" if is_raw else "rgb")


def test_tensors_are_in_the_order_of_the_next_node():
    guess = guessed(CHW, "(300, 80)", "(300, 4)", names=["logits", "pred_boxes"])
    assert (guess.tensors, guess.settings["logits"]) == (("pred_boxes", "logits"), True)
    guess = guessed(CHW, "(255, 20, 20)", "(255, 80, 80)", "(255, 40, 40)")
    assert guess.tensors == ("out1", "out2", "out0")


@pytest.mark.parametrize("scores", ["(10,)", "(?,)", "(10, 1, 1)"])
def test_one_list_of_scores_is_a_classifier(scores):
    assert guessed(CHW, scores).use == "classify"


@pytest.mark.parametrize(
    ("shape", "outputs", "dtype", "why"),
    [
        ("(128,)", ["(10,)"], "float32", "The input is float32 (128,); an image of floats"),
        (CHW, ["(10,)"], "uint8", "The input is uint8 (3, 640, 640)"),
        (CHW, ["(3, 640, 640)"], "float32", "The outputs have neither the form of class scores"),
        (CHW, ["(1,)"], "float32", "The outputs have neither"),
        (CHW, ["(10,)", "(5,)"], "float32", "The outputs have neither"),
        (CHW, ["(10, 4)"], "float32", "The outputs have neither"),
        (CHW, ["(8732, 4)", "(8732, 21)"], "float32", "The outputs have neither"),  # an SSD
        ("(1, 32, 100)", ["(26, 37)"], "float32", "The outputs have neither"),  # reads text
        ("(3, 48, 320)", ["(40, 6625)"], "float32", "The outputs have neither"),
        ("(3, 48, 320)", ["(80, 37)"], "float32", "The outputs have neither"),
    ],
)
def test_another_form_is_a_plain_node(shape, outputs, dtype, why):
    guess = guessed(shape, *outputs, dtype=dtype)
    assert (guess.use, guess.uses) == ("plain", ["plain"])
    assert guess.why[-1].startswith(why)


def test_a_model_with_several_inputs_is_a_plain_node():
    ports = [Port("ids", "", "int64", "(8,)"), Port("mask", "", "int64", "(8,)")]
    guess = guess_use(ports, [Port("out", "", "float32", "(2,)")])
    assert guess.document() == {
        **dict.fromkeys(guess.settings),
        "use": "plain",
        "why": ["The model has 2 inputs; an image model has one."],
    }


@pytest.mark.parametrize("shape", [None, CHW])
def test_unknown_shapes_exclude_no_use(shape):
    guess = guess_use(
        [Port("image", "", "float32" if shape else None, shape)], [Port("out", "", None, None)]
    )
    assert guess.uses == ["plain", "classify", "detect"]
    assert "does not say the shape" in guess.why[-1]


def test_outputs_with_open_axes_exclude_no_use():
    assert guessed("(3, ?, ?)", "(?, ?)").uses == ["plain", "classify", "detect"]
    assert guessed("(3, 48, 320)", "(?, 6625)").uses == ["plain", "classify", "detect"]


def test_a_detector_of_images_of_any_size_may_have_any_number_of_boxes():
    settings = guessed("(3, ?, ?)", "(84, 8401)").settings
    assert (settings["head"], settings["classes"]) == ("v8", 80)
