from dataclasses import dataclass

import pytest

from modelflow.errors import ConfigError, Location
from modelflow.unit.kind import Kind, Normal, Source, Stream, kind_of
from modelflow.unit.option import Option, option
from modelflow.unit.port import Port
from modelflow.unit.spec import FlowUnitSpec
from modelflow.unit.unit import FlowUnit


@dataclass(frozen=True)
class Options:
    width: int = option(help="Width in pixels.", aliases=("image_width",), minimum=1)
    quality: int = option(90, help="Quality.", maximum=100)

    def __post_init__(self):
        if self.width == 13:
            raise ValueError("13 brings bad luck")


SPEC = FlowUnitSpec("unit", {"cpu": FlowUnit}, options=Options)


def test_configure_converts_and_fills_in_defaults():
    assert SPEC.configure({"image_width": "5"}) == Options(width=5, quality=90)


def test_configure_lists_every_mistake():
    with pytest.raises(ConfigError) as caught:
        SPEC.configure({"qualty": 5, "quality": "x"})
    assert str(caught.value).splitlines() == [
        "unknown option 'qualty' of unit 'unit'; did you mean 'quality'? (options: width, quality)",
        "option 'quality': got 'x'; expected a whole number",
        "option 'width' of unit 'unit' is required",
    ]


def test_configure_passes_on_what_the_dataclass_itself_refuses():
    with pytest.raises(ConfigError, match="options of unit 'unit': 13 brings bad luck"):
        SPEC.configure({"width": 13})


def test_a_wrong_required_option_is_reported_once():
    with pytest.raises(ConfigError) as caught:
        SPEC.configure({"width": "x"})
    assert str(caught.value) == "option 'width': got 'x'; expected a whole number"


def test_undeclared_options_pass_where_the_unit_takes_any():
    spec = FlowUnitSpec("any", {"cpu": FlowUnit}, accepts_any_option=True)
    assert spec.configure({"a": "1"}).a == "1"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"name": "1st"}, "expected a name of letters"),
        ({"devices": {}}, "expected one at least"),
        ({"inputs": (Port("a"), Port("a"))}, "input 'a' is declared twice"),
        ({"options": (Option("x"), Option("y", aliases=("x",)))}, "option 'x' is declared twice"),
    ],
)
def test_a_wrong_description_is_refused(more, message):
    with pytest.raises(ConfigError, match=message):
        FlowUnitSpec(**{"name": "unit", "devices": {"cpu": FlowUnit}, **more})


def test_create_imports_the_class_that_a_text_names():
    spec = FlowUnitSpec("unit", {"cpu": "modelflow.unit.unit:FlowUnit"})
    assert type(spec.create("cpu")) is FlowUnit


@pytest.mark.parametrize("kind", ["condition", "expand", "loop"])
def test_kinds_that_give_something_need_an_output(kind):
    with pytest.raises(ConfigError, match=f"a unit of the kind '{kind}' has at least"):
        FlowUnitSpec("unit", {"cpu": FlowUnit}, inputs=(Port("in"),), kind=kind_of(kind))


@pytest.mark.parametrize(
    ("kind", "inputs", "message"),
    [
        (Source(), (Port("in"),), "got 1 inputs; a unit of the kind 'source' has none"),
        (Stream(), (), r"'stream' has at least one \(without inputs: kind=Source\(\)\)"),
        (Normal(is_per_stream=True), (), "got no input; a unit of the kind 'normal' has at least"),
        ("stream", (Port("in"),), r"got kind='stream'; expected one of Normal\(\), .* Stream\(\)"),
        (Stream, (Port("in"),), r"got kind=<class .*Stream'>; expected one of Normal\(\), "),
        (Kind(), (Port("in"),), r"got kind=Kind\(\); expected one of Normal\(\), "),
    ],
)
def test_a_unit_without_inputs_is_a_source_and_no_other(kind, inputs, message):
    with pytest.raises(ConfigError, match=message):
        FlowUnitSpec("unit", {"cpu": FlowUnit}, inputs=inputs, kind=kind)


def test_a_unit_without_inputs_that_says_no_kind_is_a_source():
    assert FlowUnitSpec("unit", {"cpu": FlowUnit}).kind == Source()


def test_a_field_that_means_nothing_for_a_kind_cannot_be_written():
    with pytest.raises(TypeError, match="is_per_stream"):
        Stream(is_per_stream=True)  # type: ignore[call-arg]


@pytest.mark.parametrize("count", ["same", True])
def test_a_stream_has_a_count(count):
    with pytest.raises(ConfigError, match=f"got count={count!r}; expected one of Count.ANY, "):
        Stream(count)


def test_what_is_wrong_is_told_with_the_place():
    place = Location("app.py", 7)
    with pytest.raises(ConfigError, match=r"^app.py:7: flow unit 'unit': got 1 inputs") as caught:
        FlowUnitSpec("unit", {"cpu": FlowUnit}, inputs=(Port("in"),), kind=Source(), location=place)
    assert [finding.location for finding in caught.value.findings] == [place]


def test_a_text_names_a_kind():
    assert kind_of("stream") == Stream()
    with pytest.raises(ConfigError, match=r"expected one of normal, .*; did you mean 'stream'"):
        kind_of("streem")
