import json

import numpy as np
import pytest

from modelflow.files.json_value import json_value
from modelflow.image import Box


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float32(0.5), 0.5),
        (np.array([0.1, 0.7], np.float32), [0.1, 0.7]),
        (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        (np.array([b"a", {"b": np.int64(1)}], dtype=object), ["a", {"b": 1}]),
        ((1, "a", None, True), [1, "a", None, True]),
        ({1: b"text", "b": memoryview(b"x")}, {"1": "text", "b": "x"}),
        (
            [Box(1, 2, 3, 4)],
            [{"x": 1, "y": 2, "w": 3, "h": 4, "score": 1.0, "class_id": 0, "label": ""}],
        ),
    ],
)
def test_json_holds_what_a_value_is(value, expected):
    found = json_value(value)
    assert found == expected
    assert json.loads(json.dumps(found)) == expected


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": [object()]}, "got object; expected data that JSON can hold"),
        (b"\xff", "can't decode byte"),
        ({1, 2}, "got set"),
    ],
)
def test_what_json_cannot_hold_is_told(value, message):
    with pytest.raises(ValueError, match=message):
        json_value(value)


def test_data_that_holds_itself_is_told():
    held = []
    held.append(held)
    with pytest.raises(ValueError, match="nested deeper than 64"):
        json_value(held)
