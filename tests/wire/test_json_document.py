import json
import math
import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modelflow.wire import json_reader
from modelflow.wire.json_outline import JsonLimits
from modelflow.wire.json_reader import read_json
from modelflow.wire.problem import Code, Problem

# As large as documents for which the parser for large documents is used.
BLANKS = " " * (1 << 14)
PADDED = pytest.mark.parametrize("padding", ["", BLANKS], ids=["small", "large"])


def plain(value):
    """Returns a value in the form of `json`."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, dict):
        return {name: plain(held) for name, held in value.items()}
    return [plain(held) for held in value] if isinstance(value, list) else value


documents = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=30,
)


@pytest.mark.parametrize("size", [0, 1 << 14], ids=["small", "large"])
@given(document=documents)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_every_parser_reads_what_json_reads(parser, size, document):
    assert plain(read_json((" " * size + json.dumps(document)).encode())) == document


@PADDED
@pytest.mark.parametrize(
    "text",
    [
        "[[1, 2], [3]]",
        '{"\\u0000": 1, "": 2}',
        "[[1, 2], [3, 4, 5, 6], [7, 8]]",
        "[1, [2]]",
        "[[1], 2]",
        "[[1, 2, 3], [4, [5], 6]]",
        "[[], []]",
        "[[], [1]]",
        "[[[]]]",
        "[]",
        '[1, "a"]',
        "[1, true]",
        "[1, null]",
        "[1, 2.5]",
        "[2.5, 1]",
        "[1, 18446744073709551615]",
        "[9007199254740993, 1]",
        '[{"a": [1, 2]}, {"a": [3]}]',
        '{"a": [1, 2], "b": ["[", "]\\"[", "x"], "c": {"d": [[1.5]]}}',
        '"text"',
        "3",
    ],
)
def test_rows_of_any_shape_and_numbers_of_any_size_are_read_as_they_stand(parser, padding, text):
    found = plain(read_json((padding + text).encode()))
    assert found == json.loads(text)


@PADDED
@pytest.mark.parametrize(
    "text",
    ["[9007199254740993, 0.5]", "[-1, 18446744073709551615]", "[123456789012345678901234567890]"],
)
def test_integers_that_share_no_type_with_their_neighbours_may_be_floats(parser, padding, text):
    found = plain(read_json((padding + text).encode()))
    assert list(map(float, found)) == list(map(float, json.loads(text)))


def test_a_large_list_of_numbers_is_an_array_and_integers_keep_their_digits():
    pytest.importorskip("simdjson", reason="pysimdjson is not installed")
    found = read_json(
        (
            BLANKS + '{"x": [[9007199254740993, 2]], "y": [0.5], "z": [18446744073709551615]}'
        ).encode()
    )
    assert [(name, array.dtype.name, array.shape) for name, array in found.items()] == [
        ("x", "int64", (1, 2)),
        ("y", "float64", (1,)),
        ("z", "uint64", (1,)),
    ]
    assert found["x"][0, 0] == 9007199254740993
    assert found["z"][0] == 2**64 - 1


def test_what_was_read_stays_when_the_parser_reads_on(parser):
    first = read_json((BLANKS + "[[1, 2], [3, 4]]").encode())
    text = read_json((BLANKS + '["abc"]').encode())
    for _ in range(3):
        read_json((BLANKS + "[[9, 9, 9], [9, 9, 9]]").encode())
    assert plain(first) == [[1, 2], [3, 4]]
    assert text == ["abc"]


def test_a_document_that_failed_does_not_hinder_the_next(parser):
    kept = []
    for _ in range(3):
        with pytest.raises(Problem) as caught:
            read_json((BLANKS + "[[1, 2], [3,").encode())
        kept.append(caught.value)
        assert plain(read_json((BLANKS + "[[1, 2]]").encode())) == [[1, 2]]


def test_threads_read_side_by_side(parser):
    found = {}

    def read(at):
        text = (BLANKS + json.dumps([[at] * 50] * 50)).encode()
        found[at] = all(plain(read_json(text)) == [[at] * 50] * 50 for _ in range(20))

    threads = [threading.Thread(target=read, args=(at,)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == dict.fromkeys(range(4), True)


@PADDED
def test_nan_and_infinities_are_read(parser, padding):
    found = read_json((padding + "[NaN, Infinity, -Infinity, 1]").encode())
    assert math.isnan(found[0])
    assert found[1:] == [math.inf, -math.inf, 1]


@PADDED
@pytest.mark.parametrize("rest", ["x", "}", '{"a": 1}', "\n\n\0", "\ufeff"])
def test_bytes_after_the_document_are_ignored_only_where_that_is_asked_for(parser, padding, rest):
    text = (padding + "[[1, 2], [3, 4]]" + rest).encode() + b"\xff\xfe"
    assert plain(read_json(text, takes_rest=True)) == [[1, 2], [3, 4]]
    with pytest.raises(Problem, match="JSON Parse error"):
        read_json(text)


@PADDED
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"[1, 2", "at offset: "),
        (b'{"a" 1}', "at offset: "),
        (b"[1, 2,]", "at offset: "),
        (b"[01]", "JSON Parse error"),
        (b"[1e400]", "Number too big to be stored in double: 1e400"),
        (b'["\xff"]', "no UTF-8 at offset"),
        (b'["\xff"', "JSON Parse error"),
        (b"nan", "JSON Parse error"),
        (b'["\\ud800"]', "half a character"),
        (b'{"\\udc00\\ud800": 1}', "half a character"),
        (b"\0", "JSON Parse error"),
        (b"[" + b"9" * 5000 + b"]", "JSON Parse error"),
    ],
)
def test_what_is_no_json_is_a_problem_that_says_where(parser, padding, text, said):
    with pytest.raises(Problem, match=said) as caught:
        read_json(padding.encode() + text)
    assert caught.value.code is Code.INVALID_ARGUMENT


def test_an_empty_body_is_said_to_be_empty():
    with pytest.raises(Problem, match=r"^JSON Parse error: The document is empty$"):
        read_json(b"")


@PADDED
@pytest.mark.parametrize(("opened", "closed"), [("[", "]"), ('{"a":', "}")])
def test_depth_is_bounded_before_anything_is_parsed(parser, padding, opened, closed):
    limits = JsonLimits(depth=100)
    inner = padding + opened * 100 + "1" + closed * 100
    read_json(inner.encode(), limits)
    with pytest.raises(Problem, match="nested 101 deep; at most 100 is taken"):
        read_json((padding + opened * 101 + "1" + closed * 101).encode(), limits)
    with pytest.raises(Problem, match="nested 100000 deep; at most 64"):
        read_json((padding + opened * 100_000).encode())


def test_brackets_in_texts_are_not_depth(parser):
    text = json.dumps(["[{" * 500, '\\"[' * 500, 1] * 20)
    assert read_json(text.encode()) == json.loads(text)


@pytest.mark.parametrize(
    "hostile",
    ['"' + "a" * 100_000, '"' + '\\"' * 100_000, '"\\', '"' * 100_001, '"' + "\\\\" * 100_000],
)
def test_texts_without_an_end_are_refused_as_quickly_as_others(parser, hostile):
    with pytest.raises(Problem, match="JSON Parse error"):
        read_json(("[" * 60 + "{" * 4 + hostile).encode())
    with pytest.raises(Problem, match="nested 65 deep"):
        read_json(("[" * 65 + hostile).encode())


def test_a_depth_beyond_every_parser_is_a_problem(parser):
    with pytest.raises(Problem, match="JSON Parse error: nested too deep"):
        read_json(b"[" * 200_000, JsonLimits(depth=10**6))


@PADDED
def test_elements_are_bounded_before_anything_is_parsed(parser, padding):
    limits = JsonLimits(elements=50)
    text = padding + json.dumps([[0, 1]] * 25)
    read_json(text.encode(), limits)
    with pytest.raises(Problem, match="52 values; at most 50 are taken; send large") as caught:
        read_json((padding + json.dumps([[0, 1]] * 26)).encode(), limits)
    assert caught.value.code is Code.RESOURCE_EXHAUSTED


def test_a_key_that_stands_twice_is_read(parser):
    assert plain(read_json((BLANKS + '{"a": [1, 2], "a": [3]}').encode()))["a"] in ([3], [1, 2])


@PADDED
@pytest.mark.parametrize("count", [1, 65, 5000])
def test_an_object_may_have_any_names_and_any_number_of_them(parser, padding, count):
    document = {chr(0) * (at % 2) + str(at): [[at, 1.5]] for at in range(count)}
    assert plain(read_json((padding + json.dumps(document)).encode())) == document


def test_a_parser_is_kept_for_the_next_document_unless_it_has_grown():
    pytest.importorskip("simdjson", reason="pysimdjson is not installed")
    read_json((BLANKS + "[1, 2]").encode())
    kept = json_reader._local.parser
    read_json((BLANKS + "[1, 2, 3]").encode())
    assert json_reader._local.parser is kept
    read_json(b" " * (4 << 20) + b"[1, 2]")
    assert not hasattr(json_reader._local, "parser")
