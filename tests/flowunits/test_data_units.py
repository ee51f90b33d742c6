"""base64_decoder, buff_meta_mapping, top_k."""

import base64
import json

import numpy as np
import pytest

from flowunits import base64_decoder, buff_meta_mapping, top_k
from modelflow import Buffer, ConfigError
from modelflow.testing import run_unit


def one(spec, data, **options):
    return run_unit(spec, {"in_data": [data]}, **options)["out_data"][0]


def error_of(*args, **options):
    buffer = one(*args, **options)
    assert buffer.has_error()
    return buffer.get_error_msg()


PAYLOAD = bytes(range(256))
TEXT = base64.b64encode(PAYLOAD)


@pytest.mark.parametrize(
    "data",
    [
        TEXT,
        TEXT.decode(),
        bytearray(TEXT),
        memoryview(TEXT),
        np.frombuffer(TEXT, np.uint8),
        base64.encodebytes(PAYLOAD),
    ],
    ids=["bytes", "str", "bytearray", "memoryview", "array", "lines"],
)
def test_base64_is_decoded_from_every_kind_of_text(data):
    assert one(base64_decoder.SPEC, data).data == PAYLOAD


def test_base64_field_of_a_json_object():
    data = json.dumps({"image": TEXT.decode(), "other": 1})
    options = {"data_format": "json", "key": "image"}
    assert one(base64_decoder.SPEC, data, **options).data == PAYLOAD
    assert one(base64_decoder.SPEC, data.encode(), **options).data == PAYLOAD


@pytest.mark.parametrize(
    ("data", "options", "expected"),
    [
        (b"", {}, "got 0 bytes"),
        ("a*b=", {}, "that are no base64"),
        ("QU*JD", {}, "that are no base64"),
        ("abc", {}, "that are no base64"),
        (5, {}, "got int; expected base64"),
        ("{", {"data_format": "json", "key": "k"}, "that are no JSON"),
        ("[" * 100_000, {"data_format": "json", "key": "k"}, "that are no JSON"),
        ("[1]", {"data_format": "json", "key": "k"}, "got no object"),
        ('{"a": 1}', {"data_format": "json", "key": "k"}, "got an object with ['a']"),
        ('{"k": 1}', {"data_format": "json", "key": "k"}, "base64 text in 'k'"),
    ],
)
def test_base64_names_what_it_cannot_decode(data, options, expected):
    assert expected in error_of(base64_decoder.SPEC, data, **options)


def test_base64_json_needs_a_key():
    with pytest.raises(ConfigError, match="needs the option 'key'"):
        base64_decoder.SPEC.configure({"data_format": "json"})


@pytest.mark.parametrize(
    ("value", "rules", "expected"),
    [
        (1, "1=2,a=b", 2),
        ("a", "1=2,a=b", "b"),
        (7, "1=2,a=b", 7),
        ("1", "1=2,a=b", "2"),
        (1, "", 1),
        (2.5, "2.5=0.5", 0.5),
        (True, "true=false", False),
        (True, "1=0", True),
        (1, "1=cat", "cat"),
        (0, " 0 = 5 ", 5),
    ],
)
def test_meta_is_mapped_and_keeps_its_type(value, rules, expected):
    source = Buffer(b"data", {"kind": value, "other": 3})
    buffer = one(buff_meta_mapping.SPEC, source, src_meta="kind", dest_meta="name", rules=rules)
    assert buffer.meta == {"kind": value, "other": 3, "name": expected}
    assert type(buffer.get("name")) is type(expected)
    assert buffer.data == b"data"
    assert "name" not in source.meta


def test_meta_may_be_mapped_onto_itself():
    source = Buffer(b"data", {"kind": 1})
    options = {"src_meta": "kind", "dest_meta": "kind", "rules": "1=2"}
    assert one(buff_meta_mapping.SPEC, source, **options).meta == {"kind": 2}
    assert source.meta == {"kind": 1}


def test_meta_that_is_absent_or_no_value_is_an_error():
    options = {"src_meta": "kind", "dest_meta": "name"}
    message = error_of(buff_meta_mapping.SPEC, Buffer(b"", {"a": 1}), **options)
    assert "got no meta 'kind' (there are: a)" in message
    message = error_of(buff_meta_mapping.SPEC, Buffer(b"", {"kind": [1]}), **options)
    assert "got a list in the meta 'kind'" in message


@pytest.mark.parametrize(("rules", "expected"), [("1", "'1'"), ("=2", "'=2'"), ("1=2,1=3", "two")])
def test_rules_have_a_form(rules, expected):
    with pytest.raises(ConfigError, match=expected):
        buff_meta_mapping.SPEC.configure({"src_meta": "a", "dest_meta": "b", "rules": rules})


def test_top_k_names_the_best_classes(tmp_path):
    labels = tmp_path / "labels.txt"
    labels.write_text("zero\none\ntwo \nthree\n\n")
    scores = np.array([0.1, 0.4, 0.4, 0.2], np.float32)
    found = one(top_k.SPEC, scores, k=3, labels=str(labels)).data
    assert [(f["class"], f["index"]) for f in found] == [("one", 1), ("two", 2), ("three", 3)]
    np.testing.assert_allclose([f["score"] for f in found], [0.4, 0.4, 0.2])
    assert json.loads(json.dumps(found)) == found


def test_top_k_without_labels_gives_numbers_and_at_most_every_class():
    found = one(top_k.SPEC, np.array([[3, 1, 2]]), k=10).data
    assert [(f["class"], f["index"], f["score"]) for f in found] == [
        (0, 0, 3.0),
        (2, 2, 2.0),
        (1, 1, 1.0),
    ]
    assert len(one(top_k.SPEC, np.arange(9)).data) == 5


def test_top_k_softmax_is_that_of_numpy_and_does_not_overflow():
    scores = np.array([1000.0, 999.0, -1000.0])
    found = one(top_k.SPEC, scores, softmax=True).data
    expected = np.exp([0.0, -1.0, -2000.0])
    np.testing.assert_allclose([f["score"] for f in found], expected / expected.sum())


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (np.zeros((2, 3)), "got an array of shape (2, 3); expected scores"),
        (np.zeros(0), "got an array of shape (0,)"),
        (np.array([1.0, np.nan]), "got nan as the best of 2 scores"),
        (np.array([1.0, np.inf]), "got inf as the best of 2 scores"),
        (b"abc", "got bytes; expected an array of scores"),
        (np.array(["a"]), "expected an array of scores"),
    ],
)
def test_top_k_names_what_are_no_scores(data, expected):
    assert expected in error_of(top_k.SPEC, data)


def test_top_k_wants_a_label_for_each_score(tmp_path):
    (tmp_path / "labels").write_text("a\nb\n")
    message = error_of(top_k.SPEC, np.zeros(3), labels=str(tmp_path / "labels"))
    assert "got 3 scores for 2 labels" in message
    with pytest.raises(FileNotFoundError):
        one(top_k.SPEC, np.zeros(3), labels=str(tmp_path / "none"))
