import asyncio
import re

import pytest

from modelflow.buffer import Buffer
from modelflow.errors import ConfigError
from modelflow.testing import check_flow_unit, run_unit
from modelflow.unit.function import flowunit, list_declared
from modelflow.unit.kind import Normal, Source
from modelflow.unit.option import REQUIRED
from modelflow.unit.port import Port
from modelflow.unit.spec import FlowUnitSpec
from modelflow.unit.unit import FlowUnit
from tests.unit.contexts import source_context


@flowunit
def scale(value: float, *, factor: float, offset: int = 0):
    """Scales a number.

    Args:
        value: What to scale.
        factor: What to multiply by,
            any number.
        offset: What to add.

    Returns:
        The scaled number,
        a float.
    """
    return value * factor + offset


def data(outputs, port="out"):
    return [buffer.data for buffer in outputs[port]]


def test_the_function_stays_a_function():
    assert scale(2, factor=3) == 6


def test_the_description_is_read_from_signature_and_docstring():
    spec = scale.SPEC
    assert (spec.name, spec.description) == ("scale", "Scales a number.")
    assert spec.inputs == (Port("value", "What to scale."),)
    assert spec.outputs == (Port("out", "The scaled number, a float."),)
    factor, offset = spec.option_list
    assert (factor.name, factor.type, factor.default) == ("factor", float, REQUIRED)
    assert factor.help == "What to multiply by, any number."
    assert (offset.name, offset.type, offset.default) == ("offset", int, 0)
    assert spec in list_declared()
    assert str(spec.location).partition(":")[0].endswith("test_function.py")


def test_a_documented_function_keeps_the_contract_of_flow_units():
    check_flow_unit(scale.SPEC, {"value": [1, 2, 3]}, factor=2.0)


def test_each_buffer_is_given_to_the_function():
    assert data(run_unit(scale.SPEC, {"value": [1, 2]}, factor="3", offset=1)) == [4, 7]


def test_only_the_item_that_raises_fails():
    calls = []

    @flowunit
    def check(value):
        calls.append(value)
        if value == 2:
            raise ValueError("is two")
        return value

    found = run_unit(check.SPEC, {"value": [1, 2, 3]})["out"]
    assert [b.data for b in found] == [1, None, 3]
    assert "ValueError: is two" in str(found[1].error)
    assert calls == [1, 2, 3]


def test_a_forgotten_return_is_said():
    @flowunit
    def forgets(value):
        value + 1

    (buffer,) = run_unit(forgets.SPEC, {"value": [1]})["out"]
    assert re.search(
        r"forgets\(\) \(.*test_function.py:\d+\) returned None; expected a value for output 'out'",
        str(buffer.error),
    )


def test_several_inputs_and_outputs():
    @flowunit(outputs=("sum", "difference"))
    def both(a, b):
        return (a + b, a - b) if a else {"difference": a - b, "sum": a + b}

    found = run_unit(both.SPEC, {"a": [5, 0], "b": [2, 2]})
    assert data(found, "sum") == [7, 2]
    assert data(found, "difference") == [3, -2]


def test_a_wrong_number_of_outputs_is_said():
    @flowunit(outputs=("x", "y"))
    def one(a):
        return (a,)

    found = run_unit(one.SPEC, {"a": [1]})
    assert "returned a tuple of 1; expected a tuple of 2 values" in str(found["x"][0].error)


def test_a_mapping_that_names_other_outputs_is_said():
    @flowunit(outputs=("class", "score"))
    def named(a):
        return {"class": a, "scor": 1}

    found = run_unit(named.SPEC, {"a": [1]})
    message = "a mapping without 'score' and with 'scor', which is no output; did you mean 'score'?"
    assert message in str(found["class"][0].error)


def test_a_port_may_declare_what_passes_there():
    pixels = Port("pixels", "the picture", dtype="uint8")

    @flowunit(inputs=(pixels,), outputs=("a", Port("b", shape="(2,)")))
    def given(image):
        return image, image

    assert given.SPEC.inputs == (pixels,)
    assert [(port.name, port.shape) for port in given.SPEC.outputs] == [("a", None), ("b", "(2,)")]


def test_a_port_that_is_neither_is_refused():
    with pytest.raises(ConfigError, match=r"has 3 in outputs=; expected a name, or a Port"):
        flowunit(outputs=(3,))(lambda: None)


def test_a_parameter_annotated_as_buffer_gets_the_buffer():
    @flowunit
    def path_of(image: Buffer):
        return image.get("path")

    assert data(run_unit(path_of.SPEC, {"image": [Buffer(0, {"path": "a"})]})) == ["a"]


def test_a_batched_function_gets_lists():
    @flowunit(batched=True)
    def total(values: list[int], *, plus: int = 0):
        return [sum(values) + plus] * len(values)

    assert data(run_unit(total.SPEC, {"values": [1, 2, 3]}, plus=4)) == [10, 10, 10]


def test_a_function_without_inputs_is_a_source_and_is_closed():
    closed = []

    @flowunit
    def numbers(*, count: int = 3):
        try:
            yield from range(count)
        finally:
            closed.append(True)

    assert numbers.SPEC.is_source
    assert data(run_unit(numbers.SPEC, count=20)) == list(range(20))
    assert closed == [True]


def test_a_function_without_outputs_is_a_sink():
    seen = []

    @flowunit(outputs=())
    def keep(value):
        if value == 2:
            raise ValueError("is two")
        seen.append(value)

    errors = run_unit(keep.SPEC, {"value": [1, 2, 3]})["errors"]
    assert len(errors) == 1
    assert "is two" in str(errors[0].error)
    assert seen[-1] == 3


async def asynchronous(value):
    return value


def default_input(value=1):
    return value


def star(*values):
    return values


def bad_annotation(value, *, size: "nothing" = 1):  # type: ignore[name-defined]  # noqa: F821
    return value


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (asynchronous, "is asynchronous"),
        (default_input, "gives the input 'value' a default"),
        (star, r"has \*values"),
        (bad_annotation, "has an annotation of 'size' that cannot be read"),
    ],
)
def test_a_signature_that_does_not_fit_is_refused_with_its_place(function, message):
    with pytest.raises(ConfigError, match=rf"test_function.py:\d+: .*{message}"):
        flowunit(function)


def test_annotations_of_inputs_need_not_be_there_when_it_runs():
    @flowunit
    def work(value: "nothing") -> "nothing":  # type: ignore[name-defined]  # noqa: F821
        return value

    assert data(run_unit(work.SPEC, {"value": [1]})) == [1]


def test_ports_given_as_one_text_are_refused():
    with pytest.raises(
        ConfigError, match=r"outputs='image'; expected a tuple: outputs=\('image',\)"
    ):
        flowunit(outputs="image")(lambda value: value)


def test_what_is_no_function_is_refused():
    with pytest.raises(ConfigError, match="expected a function: wrap it in a 'def'"):
        flowunit(len)


def test_a_source_gives_what_came_before_it_failed():
    @flowunit
    def breaks():
        yield 1
        yield 2
        raise OSError("unplugged")

    found = run_unit(breaks.SPEC)["out"]
    assert [buffer.data for buffer in found] == [1, 2, None]
    assert "OSError: unplugged" in str(found[2].error)


def test_a_source_gives_a_slow_value_at_once(monkeypatch):
    # all units count as slow
    monkeypatch.setattr("modelflow.unit.function_units._SOURCE_PATIENCE", -1.0)
    taken = []

    @flowunit
    def camera():
        for number in range(20):
            taken.append(number)
            yield number

    unit = camera.SPEC.create("cpu")
    unit.open(camera.SPEC.configure({}))
    context = source_context({"out": []})
    unit.process(context)
    unit.close()
    assert context.outputs["out"] == taken == [0]


def test_a_source_that_gives_no_stream_says_so():
    @flowunit
    def one_value():
        return 5

    (bad,) = run_unit(one_value.SPEC)["out"]
    assert re.search(r"one_value\(\) returned int; .* is a source", str(bad.error))


def test_a_batched_function_that_gives_no_list_says_so():
    @flowunit(batched=True)
    def one_value(values):
        return "ab"

    found = run_unit(one_value.SPEC, {"values": [1, 2]})["out"]
    assert "gave str for output 'out'; a batched function gives a list" in str(found[0].error)


def test_a_module_that_runs_again_replaces_its_units():
    for number in range(2):

        @flowunit(name="runs_again", description=str(number))
        def work(value):
            return value

    (spec,) = [spec for spec in list_declared() if spec.name == "runs_again"]
    assert spec.description == "1"


def test_names_of_inputs_can_be_given():
    @flowunit(name="renamed", inputs=("in image",))
    def work(image):
        return image

    assert work.SPEC.name == "renamed"
    assert [port.name for port in work.SPEC.inputs] == ["in image"]
    with pytest.raises(ConfigError, match="takes 1 inputs; inputs= names 2"):
        flowunit(inputs=("a", "b"))(lambda x: x)


def test_a_condition_function_names_the_output_by_which_its_input_leaves():
    @flowunit(kind="condition", outputs=("small", "large"))
    def size(value, *, bound: int = 5):
        return "small" if value < bound else {"large": value * 100}

    found = run_unit(size.SPEC, {"value": [1, 7, 2]}, bound=3)
    assert {name: [b.data for b in column] for name, column in found.items()} == {
        "small": [1, 2],
        "large": [700],
    }


def test_a_condition_function_that_names_no_output_says_what_it_gave():
    @flowunit(kind="condition", outputs=("small", "large"))
    def size(value):
        return "tiny"

    (bad,) = run_unit(size.SPEC, {"value": [1]})["small"]
    assert "returned 'tiny'; expected the name of an output" in bad.get_error_msg()


def test_an_expand_function_yields_and_a_collapse_function_gets_lists():
    @flowunit(kind="expand")
    def digits(value):
        yield from (int(digit) for digit in str(value))

    @flowunit(kind="collapse")
    def total(values):
        return sum(values)

    found = run_unit(digits.SPEC, {"value": [12, 345]})["out"]
    assert [b.data for b in found] == [1, 2, 3, 4, 5]
    assert run_unit(total.SPEC, {"values": [1, 2, 3]})["out"][0].data == 6
    assert run_unit(total.SPEC, {"values": []})["out"][0].data == 0


def test_an_expand_function_that_gives_no_list_says_so():
    @flowunit(kind="expand")
    def digits(value):
        return str(value)

    (bad,) = run_unit(digits.SPEC, {"value": [12]})["out"]
    assert "gave str; an expand function gives a list of values" in bad.get_error_msg()


@pytest.mark.parametrize(
    ("kind", "batched", "message"),
    [
        ("stream", False, "which keeps state: write a class"),
        ("conditon", False, "did you mean 'condition'"),
        ("expand", True, "batched=True is for kind='normal'"),
    ],
)
def test_a_kind_that_is_no_function_s_is_refused(kind, batched, message):
    with pytest.raises(ConfigError, match=message):

        @flowunit(kind=kind, batched=batched)
        def unit(value):
            return value


def test_a_function_that_yields_is_an_expand_or_a_source():
    with pytest.raises(ConfigError, match="yields, and is of the kind 'normal'; expected a return"):

        @flowunit
        def unit(value):
            yield value


def test_a_condition_function_needs_two_outputs():
    with pytest.raises(ConfigError, match="has 1 outputs; a condition has at least two"):

        @flowunit(kind="condition")
        def unit(value):
            return "out"


def test_a_kind_may_be_a_value():
    @flowunit(kind=Source(opens_sessions=True))
    def numbers():
        return [1]

    @flowunit(kind=Normal(is_batch_retried=False))
    def double(value):
        return 2 * value

    assert numbers.SPEC.kind == Source(opens_sessions=True)
    assert double.SPEC.kind == Normal(is_batch_retried=False)


@pytest.mark.parametrize("kind", [Normal, None, 3])
def test_what_is_no_kind_is_refused(kind):
    with pytest.raises(ConfigError, match=r"got kind=.*; expected one of normal, .* Normal\(\)$"):

        @flowunit(kind=kind)
        def double(value):
            return 2 * value


def test_a_word_of_a_kind_is_told_to_stand_inside_it():
    with pytest.raises(ConfigError, match=r"expected kind=modelflow.Source\(opens_sessions=...\)$"):

        @flowunit(opens_sessions=True)
        def numbers():
            return [1]


@pytest.mark.parametrize("kind", ["expand", "collapse", "condition", "loop"])
def test_other_kinds_are_no_sources(kind):
    with pytest.raises(ConfigError, match=f"got no input; a unit of the kind '{kind}' has at"):

        @flowunit(kind=kind, outputs=("a", "b"))
        def unit():
            return "a"


@pytest.mark.parametrize("name", ["process", "open", "close", "stream_end"])
def test_a_class_whose_method_is_async_is_refused_where_it_is_declared(name):
    async def method(self, *_):
        return None

    with pytest.raises(ConfigError, match=rf"test_function.py:\d+: .*: {name}.. is asynchronous"):
        type("Fetch", (FlowUnit,), {name: method})


def test_a_class_may_have_async_methods_of_its_own():
    class Fetch(FlowUnit):
        async def fetch(self):
            return 7

        def process(self, ctx):
            ctx.emit([asyncio.run(self.fetch()) for _ in ctx.input()])

    spec = FlowUnitSpec("fetch", {"cpu": Fetch}, inputs=(Port("in"),), outputs=(Port("out"),))
    assert data(run_unit(spec, {"in": [1]}), "out") == [7]
