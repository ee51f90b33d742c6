from dataclasses import dataclass
from typing import Any, Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from modelflow.errors import ConfigError
from modelflow.unit.option import REQUIRED, Config, Option, convert, option, options_of


@pytest.mark.parametrize(
    ("value", "wanted", "expected"),
    [
        ("8", int, 8),
        (8, int, 8),
        ("-1.5", float, -1.5),
        (2, float, 2.0),
        ("true", bool, True),
        ("0", bool, False),
        (1, bool, True),
        (5, str, "5"),
        (True, str, "true"),
        ("1, 2,3", tuple[float, ...], (1.0, 2.0, 3.0)),
        ([1, "2"], list[int], [1, 2]),
        (4, tuple[int, ...], (4,)),
        ("", tuple[int, ...], ()),
        ("1,2", tuple[int, int], (1, 2)),
        ("jpeg", Literal["jpeg", "png"], "jpeg"),
        ("90", Literal[90, 180], 90),
        ("none", int | None, None),
        ("7", int | None, 7),
        ({"a": 1}, Any, {"a": 1}),
    ],
)
def test_convert_takes_text_and_typed_values(value, wanted, expected):
    found = convert(value, wanted)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("value", "wanted", "message"),
    [
        ("x", int, "a whole number"),
        (1.5, int, "a whole number"),
        (True, int, "a whole number"),
        ("9" * 40, int, "a whole number"),
        ("x", float, "a number"),
        ("maybe", bool, "true or false"),
        ([1], str, "text"),
        ("1,x", tuple[int, ...], "a list of values, each a whole number"),
        ("1", tuple[int, int], "2 values, each a whole number"),
        ("jepg", Literal["jpeg", "png"], "one of 'jpeg', 'png'; did you mean 'jpeg'"),
    ],
)
def test_convert_says_what_was_expected(value, wanted, message):
    with pytest.raises(ValueError, match=message):
        convert(value, wanted)


@given(st.integers(-(10**17), 10**17))
def test_a_number_survives_its_text(number):
    assert convert(str(number), int) == number


@given(st.text())
@example("0\x1f")  # a blank to str.strip, none to int
def test_convert_of_any_text_gives_an_int_or_a_value_error(text):
    try:
        assert isinstance(convert(text, int), int)
    except ValueError as error:
        assert str(error) == "a whole number"  # noqa: PT017 - both outcomes are right


def test_bounds_are_checked_for_each_number():
    size = Option("size", tuple[int, ...], minimum=1, maximum=9)
    assert size.convert("1,9") == (1, 9)
    with pytest.raises(ConfigError, match=r"'size': got '1,10'; expected a number from 1 to 9"):
        size.convert("1,10")


def test_options_of_reads_a_dataclass():
    @dataclass
    class Options:
        width: int = option(help="Width in pixels.", aliases=("w",), minimum=1)
        mode: Literal["a", "b"] = option("a", help="How.")

    width, mode = options_of(Options)
    assert (width.name, width.type, width.default, width.aliases) == (
        "width",
        int,
        REQUIRED,
        ("w",),
    )
    assert width.is_required
    assert mode.default == "a"
    assert not mode.is_required


def test_config_is_a_mapping_with_attributes():
    config = Config({"size": 3})
    assert config.size == config["size"] == 3
    assert dict(config) == {"size": 3}
    with pytest.raises(AttributeError, match="no option 'sizes'; did you mean 'size'"):
        config.sizes  # noqa: B018
