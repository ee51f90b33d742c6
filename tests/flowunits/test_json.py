"""json_field, json_object."""

import json

import numpy as np
import pytest

from flowunits import json_field, json_object
from modelflow import Buffer, ConfigError
from modelflow.image import Box
from modelflow.testing import run_unit

DOCUMENT = {
    "text": "good",
    "n": 5,
    "none": None,
    "user": {"name": "Ä", "tags": ["a", {"b": [1, 2.5]}]},
    "pixels": [[1, 2], [3, 255]],
}


def field(data, **options):
    return run_unit(json_field.SPEC, {"in_data": [data]}, **options)["out_data"][0]


def error_of(buffer):
    assert buffer.has_error()
    return buffer.get_error_msg()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("text", "good"),
        ("n", 5),
        ("none", None),
        ("user.name", "Ä"),
        ("user.tags", ["a", {"b": [1, 2.5]}]),
        ("user.tags.0", "a"),
        ("user.tags.1.b.1", 2.5),
    ],
)
def test_a_field_is_found_in_every_form_of_a_document(path, expected):
    text = json.dumps(DOCUMENT, ensure_ascii=False)
    raw = text.encode()
    array = np.frombuffer(raw, np.uint8)
    for data in (DOCUMENT, text, raw, bytearray(raw), memoryview(raw), array):
        found = field(data, field=path).data
        assert (found, type(found)) == (expected, type(expected))


def test_a_field_of_a_list_and_of_arrays_that_are_in_a_mapping():
    assert field("[1, [2, 3]]", field="1.0").data == 2
    assert field([{"a": 1}], field="0.a").data == 1
    assert field({"a": np.arange(5)}, field="a.3").data == 3
    assert field({"7": 1}, field="7").data == 1


def test_the_meta_goes_on():
    buffer = field(Buffer('{"a": 1}', {"path": "p"}), field="a")
    assert buffer.meta == {"path": "p"}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("txt", "field 'txt': got an object with the keys text, n, none, user, pixels as the "
         "document; expected 'txt' in it; did you mean 'text'?"),
        ("user.nam", "got an object with the keys name, tags at 'user'; expected 'nam' in it; did "
         "you mean 'name'?"),
        ("user.tags.2", "got a list of 2 items at 'user.tags'; expected '2' in it"),
        ("user.tags.-1", "got a list of 2 items at 'user.tags'; expected '-1' in it"),
        ("user.tags.9999999999999999999999", "got a list of 2 items"),
        ("user.tags.\u0660", "got a list of 2 items at 'user.tags'; expected '\u0660' in it"),
        ("text.0", "got 'good' at 'text'; expected '0' in it"),
        ("none.a", "got None at 'none'; expected 'a' in it"),
    ],
)  # fmt: skip
def test_a_field_that_is_not_there_is_told_with_what_is(path, expected):
    message = error_of(field(json.dumps(DOCUMENT), field=path))
    assert f"in_data: field {path!r}: " in message
    assert expected in message


def test_of_many_keys_a_few_are_shown():
    message = error_of(field({str(n): n for n in range(5000)}, field="a"))
    assert "18, 19 and 4980 more" in message
    assert "20," not in message
    # A similar name is not searched among all of them either.
    message = error_of(field({**{str(n): n for n in range(5000)}, "text": 1}, field="txt"))
    assert "did you mean" not in message
    assert "got an object without keys" in error_of(field({}, field="a"))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("{", "got 1 bytes that are no JSON"),
        (b"", "got 0 bytes that are no JSON"),
        (b"\xff\xfe\xfa", "got 3 bytes that are no JSON"),
        ("[" * 100_000, "that are no JSON"),
        ("1" * 5000, "that are no JSON"),
        (5, "got int; expected a JSON document"),
        (np.zeros((2, 2), np.uint8), "got ndarray; expected a JSON document"),
        (" " * ((64 << 20) + 1), "expected a JSON document of at most 67108864"),
    ],
)
def test_what_is_no_document_is_told_also_where_there_is_a_default(data, expected):
    assert expected in error_of(field(data, field="a", default="0"))


@pytest.mark.parametrize(
    ("default", "expected"),
    [("0", 0), (0, 0), ("[]", []), ("null", None), ("en", "en"), ('"1"', "1"), ("a b", "a b")],
)
def test_a_default_takes_the_place_of_a_field_that_is_not_there(default, expected):
    for path in ("absent", "user.absent.more", "user.tags.7", "text.a"):
        found = field(DOCUMENT, field=path, default=default).data
        assert (found, type(found)) == (expected, type(expected))
    assert field(DOCUMENT, field="n", default=default).data == 5


def test_a_field_that_is_null_is_there():
    assert field(DOCUMENT, field="none", default="1").data is None


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        ([[1, 2], [3, 255]], "uint8"),
        ([[1, 2], [3, 255]], "float32"),
        ([-128, 127], "int8"),
        (2**31 - 1, "int32"),
        ([2**63 - 1, -(2**63)], "int64"),
        ([0.5, 1], "float16"),
        (1e300, "float64"),
        ([True, False], "bool"),
        ([], "int32"),
        ([[], []], "float32"),
    ],
)
def test_a_field_as_an_array(value, dtype):
    found = field(json.dumps({"a": value}), field="a", dtype=dtype).data
    assert found.dtype == dtype
    assert found.shape == np.shape(value)
    assert found.tolist() == value


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        ("x", "float32", "field 'a': got 'x'; expected numbers for an array of float32"),
        (["1"], "int32", "got ['1']; expected whole numbers"),
        ([1.5], "int32", "got [1.5]; expected whole numbers for an array of int32"),
        ([True], "int32", "got [True]; expected whole numbers"),
        ([1], "bool", "got [1]; expected true and false"),
        (None, "float32", "got None; expected numbers"),
        ({"b": 1}, "float32", "got {'b': 1}; expected numbers"),
        ([1, 256], "uint8", "got 256; expected whole numbers"),
        ([-1, 2], "uint8", "got -1; expected whole numbers"),
        (2**31, "int32", "got 2147483648; expected whole numbers"),
        (2**63, "int64", "got 9223372036854775808; expected"),
        (2**200, "int64", "expected whole numbers"),
        ([1, -1e39], "float32", "got 1e+39; expected numbers"),
        ([[1, 2], [3]], "float32", "expected numbers for an array of float32: one, or lists of"),
    ],
)
def test_an_array_loses_nothing(value, dtype, expected):
    assert expected in error_of(field({"a": value}, field="a", dtype=dtype))


def test_a_default_becomes_an_array_too():
    found = field({}, field="a", dtype="float32", default="[1, 2]").data
    assert (found.dtype, found.tolist()) == ("float32", [1, 2])


@pytest.mark.parametrize("path", ["", ".", "a..b", "a."])
def test_a_path_has_no_empty_parts(path):
    with pytest.raises(ConfigError, match="expected keys and numbers with dots between"):
        json_field.SPEC.configure({"field": path})


def together(*values, **options):
    inputs = {f"in_data{place}": [value] for place, value in enumerate(values, 1)}
    return run_unit(json_object.SPEC, inputs, **options)["out_data"][0]


def test_an_object_of_several_inputs_in_the_order_of_the_keys():
    options = {"fields": "text,scores,best,box,raw"}
    values = ("Ä", np.array([[1, 2]], np.uint8), np.float32(0.5), Box(1, 2, 3, 4, 0.5, 1), b"x")
    expected = {
        "text": "Ä",
        "scores": [[1, 2]],
        "best": 0.5,
        "box": {"x": 1, "y": 2, "w": 3, "h": 4, "score": 0.5, "class_id": 1, "label": ""},
        "raw": "x",
    }
    found = together(*values, **options).data
    assert isinstance(found, bytes)
    assert json.loads(found) == expected
    assert list(json.loads(found)) == list(expected)
    assert "Ä".encode() in found
    mapping = together(*values, **options, format="mapping").data
    assert mapping == expected
    assert type(mapping["best"]) is float


def test_all_eight_inputs():
    fields = [f"f{n}" for n in range(8)]
    assert json.loads(together(*range(8), fields=fields).data) == {f"f{n}": n for n in range(8)}


def test_meta_become_fields():
    data = Buffer([1], {"path": "a.txt", "index": np.int64(3), "other": 1})
    found = together(data, fields="value", meta="path,index")
    assert found.data == b'{"value": [1], "path": "a.txt", "index": 3}'
    assert found.meta == data.meta
    message = error_of(together(data, fields="value", meta="pth"))
    assert "in_data1: got no meta 'pth' (there are: path, index, other); did you mean" in message


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((1, object()), "in_data2: got object; expected data that JSON can hold"),
        ((b"\xff", 1), "in_data1: 'utf-8' codec can't decode"),
        ((1, np.array([np.nan])), "field 'b': got a value that JSON cannot hold"),
        ((float("inf"), 1), "field 'a': got a value that JSON cannot hold"),
        (("\ud800", 1), "field 'a': got a value that JSON cannot hold"),
    ],
)
def test_what_json_cannot_hold_is_told(values, expected):
    assert expected in error_of(together(*values, fields="a,b"))


def test_inputs_and_keys_are_of_one_number():
    message = error_of(together(1, 2, fields="a"))
    assert "got in_data1, in_data2 for the keys a; expected that in_data1 are connected" in message
    message = error_of(together(1, fields="a,b"))
    assert "got in_data1 for the keys a, b; expected that in_data1, in_data2" in message


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"fields": ""}, "got 0 keys; expected 1 to 8"),
        ({"fields": ",".join("abcdefghi")}, "got 9 keys; expected 1 to 8"),
        ({"fields": "a,a"}, "got the key 'a' twice"),
        ({"fields": "a,,b"}, "got an empty key"),
        ({"fields": "a", "meta": "a"}, "got the key 'a' twice"),
    ],
)
def test_keys_are_checked_before_anything_runs(options, expected):
    with pytest.raises(ConfigError, match=expected):
        json_object.SPEC.configure(options)
