"""pad_sequence, labels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from flowunits import labels, pad_sequence
from modelflow import ConfigError
from modelflow.testing import run_unit


def one(spec, data, **options):
    return run_unit(spec, {"in_data": [data]}, **options)["out_data"][0]


def error_of(*args, **options):
    buffer = one(*args, **options)
    assert buffer.has_error()
    return buffer.get_error_msg()


SHAPES = st.one_of(
    st.tuples(st.integers(0, 9)), st.tuples(st.integers(0, 9), st.integers(1, 3), st.integers(1, 2))
)
SIDES = {"left": "pre", "right": "post"}


@given(
    st.sampled_from(["int32", "int64", "uint8", "float32", "float16"]).flatmap(
        lambda dtype: arrays.arrays(dtype, SHAPES, elements={"min_value": 0, "max_value": 99})
    ),
    st.integers(1, 9),
    st.sampled_from([0, 7]),
    st.sampled_from([*SIDES]),
    st.sampled_from([*SIDES, None]),
)
def test_sequences_are_padded_and_cut_as_by_keras(array, length, value, side, cut_side):
    utils = pytest.importorskip("keras").utils
    options = {"length": length, "value": value, "side": side, "cut_side": cut_side}
    found = one(pad_sequence.SPEC, array, **options).data
    # Keras takes the further axes from the first sequence, which must not be empty.
    expected = np.full((length, *array.shape[1:]), value, array.dtype)
    if len(array):
        cut = SIDES[cut_side or side]
        (expected,) = utils.pad_sequences(
            [array], length, array.dtype, SIDES[side], cut, value=value
        )
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, expected)


def test_lists_are_sequences_and_what_fits_is_left_as_it_is():
    assert one(pad_sequence.SPEC, [1, 2], length=3, value=-1).data.tolist() == [1, 2, -1]
    assert one(pad_sequence.SPEC, [[True]], length=2, value=1).data.tolist() == [[True], [True]]
    array = np.arange(3, dtype=np.uint8)
    assert one(pad_sequence.SPEC, array, length=3, value=-1).data.tolist() == [0, 1, 2]
    padded = one(pad_sequence.SPEC, np.zeros(1, np.float32), length=2, value="-inf").data
    assert padded.tolist() == [0, -np.inf]


@pytest.mark.parametrize(
    ("data", "value", "expected"),
    [
        (np.zeros(1, np.uint8), -1, "got an array of uint8; expected one that can hold value=-1"),
        (np.zeros(1, np.uint8), 256, "expected one that can hold value=256"),
        (np.zeros(1, np.int64), 0.5, "got an array of int64; expected one that can hold value=0.5"),
        (np.zeros(1, np.int64), "nan", "can hold value=nan"),
        (np.zeros(1, bool), 2, "got an array of bool"),
        (np.zeros(1, np.float16), 1e6, "got an array of float16"),
        (np.float32(1), 0, "got float32; expected numbers (n, ...)"),
        (np.array(1), 0, "got int64 (); expected numbers (n, ...)"),
        (b"abc", 0, "got bytes; expected numbers"),
        ([[1], [2, 3]], 0, "got a list of unequal lengths; expected numbers"),
        (["a"], 0, "got <U1 (1,); expected numbers"),
        (np.zeros((0, 1 << 40)), 0, "which would become (9, 1099511627776); expected at most"),
    ],
)
def test_what_cannot_be_padded_is_told(data, value, expected):
    message = error_of(pad_sequence.SPEC, data, length=9, value=value)
    assert "in_data: got " in message
    assert expected in message


def test_the_length_is_bounded():
    for length in (0, 10_000_001):
        with pytest.raises(ConfigError, match="from 1 to 10000000"):
            pad_sequence.SPEC.configure({"length": length})


@pytest.fixture
def names(tmp_path):
    path = tmp_path / "labels.txt"
    path.write_text("cat\ndog\nant\n")
    return {"path": str(path)}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (1, "dog"),
        (np.int64(2), "ant"),
        (np.array(0, np.uint8), "cat"),
        ([1, 0], ["dog", "cat"]),
        (np.array([[0], [2]]), [["cat"], ["ant"]]),
        ([], []),
    ],
)
def test_numbers_are_named(names, data, expected):
    assert one(labels.SPEC, data, **names).data == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ([0.1, 0.7, 0.2], "dog"),
        (np.array([5, 5, 1], np.uint8), "cat"),
        (np.eye(3, dtype=np.float32)[[2, 0]], ["ant", "cat"]),
        (np.zeros((0, 3)), []),
    ],
)
def test_the_best_score_is_named(names, data, expected):
    assert one(labels.SPEC, data, **names, of="scores").data == expected


@pytest.mark.parametrize(
    ("data", "options", "expected"),
    [
        (3, {}, "in_data: got class 3 for 3 labels; expected 0 to 2"),
        ([0, -1], {}, "in_data: got class -1 for 3 labels; expected 0 to 2"),
        ([0.5, 0.2], {}, "in_data: got float64 (2,); expected whole numbers, or of=scores"),
        (True, {}, "in_data: got bool (); expected numbers"),
        (b"1", {}, "in_data: got bytes; expected numbers"),
        ([[1], [1, 2]], {}, "in_data: got a list of unequal lengths; expected numbers"),
        (["1"], {}, "in_data: got <U1 (1,); expected numbers"),
        (2**70, {}, "expected numbers"),
        ([0.5, 0.2], {"of": "scores"}, "got scores (2,) for 3 labels; expected (..., 3)"),
        (1, {"of": "scores"}, "got scores () for 3 labels"),
        ([0.5, 0.2, np.nan], {"of": "scores"}, "got nan as the best of the scores"),
        ([[1, 0, 0], [0.5, 0.2, np.inf]], {"of": "scores"}, "got inf as the best of the scores"),
    ],
)
def test_what_has_no_name_is_told(names, data, options, expected):
    assert expected in error_of(labels.SPEC, data, **names, **options)


def test_a_file_without_names_is_told(tmp_path):
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(ValueError, match="got no names; expected a name a line"):
        one(labels.SPEC, 0, path=str(tmp_path / "empty"))
