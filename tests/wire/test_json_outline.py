import json

import numpy as np
import pytest

from modelflow.wire.json_outline import outline_of_text, outline_of_value


@pytest.mark.parametrize(
    ("text", "outline"),
    [
        ('{"instances": [[1.5, 2], [3, 4]]}', b"{:[[,],[,]]}"),
        ('{"a[": "]}", "b": [null, true, "\\"[", "\\\\"], "c": {}}', b"{:,:[,,,],:{}}"),
        ("[]", b"[]"),
        ("-1.5e+7", b""),
        ('["a, b", [[]]]', b"[,[[]]]"),
    ],
)
def test_an_outline_is_brackets_without_words(text, outline):
    assert outline_of_text(text.encode()) == outline
    assert outline_of_value(json.loads(text)) == outline


@pytest.mark.parametrize("shape", [(0,), (1,), (3,), (2, 0), (0, 2), (1, 1, 1), (2, 3, 4)])
def test_an_array_has_the_outline_of_its_lists(shape):
    array = np.zeros(shape)
    assert outline_of_value({"x": array}) == outline_of_value({"x": array.tolist()})
