"""Results as Parquet: typed columns, errors in their places, one file or a folder of parts."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from modelflow.errors import ConfigError
from modelflow.job import parquet as tables
from modelflow.job.parquet import TableWriter

pq = pytest.importorskip("pyarrow.parquet")


def written(path, values, parts=None):
    table = TableWriter(path, "--output o.parquet", parts, is_begun=bool(parts))
    problems = []
    for index, value in enumerate(values):
        error = "failed" if value is None else None
        line = {"index": index, "path": f"{index}.txt", "output": "output"}
        problems.append(None)
        try:
            table.add(line, value, error, {})
        except TypeError as problem:
            problems[-1] = problem
            table.add(line, None, str(problem), {})
        if table.is_full:
            table.write(table.count)
    if parts is not None:
        table.write(table.count)
    table.close()
    return problems


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        ([1, None, np.int32(3)], "int64"),
        ([0.5, None, 2], "double"),
        (["a", None], "string"),
        ([b"\0", None, memoryview(b"x")], "binary"),
        ([True, None], "bool"),
        ([["a", "b"], None, []], "list<element: string>"),
        ([{"a": 1}, None, {"b": [2]}], "string"),
        ([None, None], "null"),
        ([], "null"),
    ],
)
def test_a_column_has_the_type_of_its_first_result(tmp_path, values, type_):
    problems = written(tmp_path / "o.parquet", values)
    assert not any(problems)
    found = pq.read_table(tmp_path / "o.parquet")
    assert str(found.schema.field("data").type) == type_
    rows = found.to_pylist()
    assert [row["error"] for row in rows] == ["failed" if v is None else None for v in values]
    assert [row["path"] for row in rows] == [f"{index}.txt" for index in range(len(values))]
    if type_ not in ("string", "binary"):
        assert [row["data"] for row in rows] == values


@given(st.data())
def test_arrays_come_back_as_they_were(tmp_path_factory, data):
    axes = data.draw(st.integers(1, 4))
    dtype = data.draw(st.sampled_from(["f4", "f8", "i2", "u1", "?"]))
    shapes = array_shapes(min_dims=axes, max_dims=axes, min_side=0, max_side=4)
    one = arrays(dtype, shapes)
    values = data.draw(st.lists(st.none() | one, max_size=6))
    path = tmp_path_factory.mktemp("t") / "o.parquet"
    assert not any(written(path, values))
    rows = pq.read_table(path).to_pylist()
    expected = [None if value is None else value.tolist() for value in values]
    assert str([row["data"] for row in rows]) == str(expected)  # NaN equals NaN


@pytest.mark.parametrize(
    ("first", "other"),
    [
        (1, "text"),
        (np.zeros(3, np.float32), np.zeros(3, np.float64)),
        (np.zeros(3, np.float32), np.zeros((3, 1), np.float32)),
        (np.zeros(3, np.float32), "text"),
        ("text", np.zeros(3)),
    ],
)
def test_a_result_of_another_type_is_an_error_in_its_place(tmp_path, first, other):
    _, problem, last = written(tmp_path / "o.parquet", [first, other, first])
    assert "the column holds" in str(problem)
    assert last is None
    rows = pq.read_table(tmp_path / "o.parquet").to_pylist()
    assert [row["error"] is None for row in rows] == [True, False, True]


def test_groups_of_rows_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "_MOST_ROWS", 10)
    written(tmp_path / "o.parquet", range(35))
    file = pq.ParquetFile(tmp_path / "o.parquet")
    assert [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)] == [
        10, 10, 10, 5,
    ]  # fmt: skip
    monkeypatch.setattr(tables, "_MOST_BYTES", 1000)
    written(tmp_path / "p.parquet", [bytes(600)] * 3)
    assert pq.ParquetFile(tmp_path / "p.parquet").num_row_groups == 2


def test_parts_are_gone_on_with_and_what_was_not_noted_is_removed(tmp_path):
    path = tmp_path / "o.parquet"
    written(path, [np.zeros(2, np.float32)], parts=0)
    written(path, [np.ones(2, np.float32)], parts=1)
    assert sorted(part.name for part in path.iterdir()) == [
        "part-00000.parquet",
        "part-00001.parquet",
    ]
    written(path, [np.ones(2, np.float32)], parts=2)
    (path / ".part-00001.parquet.0123456789ab.part").write_text("cut o")
    problems = written(path, [7, np.full(2, 2, np.float32)], parts=1)
    assert "the column holds list<element: float>" in str(problems[0])
    assert [row["data"] for row in pq.read_table(path).to_pylist()] == [[0, 0], None, [2, 2]]
    assert len(list(path.iterdir())) == 2


def test_what_is_there_and_does_not_fit_is_refused(tmp_path):
    written(tmp_path / "file.parquet", [1])
    with pytest.raises(ConfigError, match="is a file; --resume writes a folder of parts"):
        TableWriter(tmp_path / "file.parquet", "--output", 0)
    written(tmp_path / "parts.parquet", [1], parts=0)
    with pytest.raises(ConfigError, match="is a folder of parts"):
        TableWriter(tmp_path / "parts.parquet", "--output", None)
    with pytest.raises(ConfigError, match=r"has no part-00001\.parquet, which the job had written"):
        TableWriter(tmp_path / "parts.parquet", "--output", 2, is_begun=True)
    with pytest.raises(ConfigError, match=r"part-00000\.parquet is there already"):
        TableWriter(tmp_path / "parts.parquet", "--output", 0)
    assert pq.read_table(tmp_path / "parts.parquet").num_rows == 1


@pytest.mark.parametrize("odd", [2**70, np.uint64(2**63 + 1), "half \udcff"])
def test_a_first_result_that_no_column_holds_is_an_error_and_the_next_says_the_type(tmp_path, odd):
    problem, *others = written(tmp_path / "o.parquet", [odd, "text", "half \udcff", "more"])
    assert "no column can hold it" in str(problem)
    assert [other is None for other in others] == [True, False, True]
    rows = pq.read_table(tmp_path / "o.parquet").to_pylist()
    assert [row["data"] for row in rows] == [None, "text", None, "more"]


PAIRS, LISTS = np.zeros((2, 3), np.int64), [[1], [2, 3]]


@pytest.mark.parametrize(
    ("first", "odd", "expected"),
    [
        (PAIRS, "", None),
        (PAIRS, LISTS, LISTS),
        (PAIRS[0], b"\xff", None),
        (PAIRS[0], "", None),
        (PAIRS[0], {1, 2}, None),
        (PAIRS[0], [1, None], [1, None]),
        (PAIRS[0], [2**70], None),
        (PAIRS[0], PAIRS[0].astype(">i8"), [0, 0, 0]),
        (["a"], np.array(["b"]), ["b"]),
        (["a"], np.array(["\udcff"]), None),
        ([1, "a"], 2**70, str(2**70)),
        ({"\udcff": 1}, "\udcff", '"\\udcff"'),
    ],
)
def test_an_odd_result_leaves_the_others_as_they_are(tmp_path, first, odd, expected):
    path, data = tmp_path, []
    for parts in (None, 0):
        path = tmp_path / ("o.parquet" if parts is None else "parts.parquet")
        problems = written(path, [first, odd, None, first], parts)
        assert [problem is None for problem in problems] == [True, expected is not None, True, True]
        data = [row["data"] for row in pq.read_table(path).to_pylist()]
        assert data[1:3] == [expected, None]
        assert data[0] == data[3] is not None
    problems = written(path, [odd, first], 1)
    assert [problem is None for problem in problems] == [expected is not None, True]
    assert pq.read_table(path)["data"].to_pylist() == [*data, expected, data[0]]


def test_names_errors_and_meta_that_are_no_utf8_are_escaped(tmp_path):
    table = TableWriter(tmp_path / "o.parquet", "--output o.parquet", None)
    table.add({"index": 0, "path": "\udcff.txt"}, None, "is \udcfe", {"a": "\udcfd"})
    table.close()
    (row,) = pq.read_table(tmp_path / "o.parquet").to_pylist()
    assert row["path"] == "\\udcff.txt"
    assert row["error"] == "is \\udcfe"
    assert json.loads(row["meta"]) == {"a": "\udcfd"}


def test_a_damaged_part_is_named(tmp_path):
    path = tmp_path / "o.parquet"
    for number in range(2):
        written(path, [1], parts=number)
    (path / "part-00001.parquet").write_bytes(b"damaged")
    with pytest.raises(ConfigError, match=r"part-00001\.parquet is no whole part of results \("):
        written(path, [1], parts=2)
