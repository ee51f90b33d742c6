"""Tests of every kind of model, in every engine, by every way, alone and in batches with others.

The reference is the engine, called by hand with one row.
"""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.models import entrances
from tests.models.entrances import LIBRARY, SERVED, calls_of, reason_of, run
from tests.models.kind import ENGINES
from tests.models.kinds import DTYPES, KINDS

CLIENTS = 4
# The message to clients about errors that may not be their fault; the log has the details.
INSIDE = "the request failed inside the server"
HAD = [(engine, name) for engine in ENGINES for name in KINDS if KINDS[name].is_had_by(engine)]


def by_submitter(entrances):
    """Parametrizes a test by engine, kind, way and manner."""
    return pytest.mark.parametrize(
        ("engine", "name", "way", "how"),
        [
            pytest.param(engine, name, way, how, id=f"{engine}-{name}-{way}-{how}")
            for engine, name in HAD
            for way in entrances
            if way not in KINDS[name].without
            for how in hows(engine, name, way)
        ],
    )


def hows(engine, name, way):
    """Returns the manners for a cell; a request without rows needs a file with shapes."""
    is_empty = way in SERVED and way != "predict" and name in ("dict", "many types")
    is_empty = is_empty and engine in ("onnx", "tensorflow", "torch export")
    return ("alone", "with others", *(["no rows"] if is_empty else []))


@by_submitter(LIBRARY)
def test_a_program_is_answered_as_by_the_engine_itself(cells, engine, name, way, how):
    cell, is_with_others = cells[engine, name], how == "with others"
    before = [{key: np.array(value) for key, value in row.items()} for row in cell.kind.rows]
    with LIBRARY[way](cell, is_with_others) as (ask, most):
        check(cell, ask, cell.answers, is_with_others)
        if is_with_others and cell.kind.is_joined:
            assert most() > 1
    for row, kept in zip(cell.kind.rows, before, strict=True):
        assert_same(kept, row, "the caller's own")


@by_submitter(SERVED)
def test_a_client_is_answered_as_by_the_engine_itself(
    servers, cells, engine, name, way, how, monkeypatch
):
    cell, server, is_with_others = cells[engine, name], servers(engine), how == "with others"
    if how == "no rows":
        first = cell.kind.rows[0]
        empty = {key: np.empty((0, *item.shape), item.dtype) for key, item in first.items()}
        monkeypatch.setattr(entrances, "batch", lambda _kind, _row, key: empty[key])
        none = {key: value[:0] for key, value in cell.answers[0].items()}
        assert_same(none, SERVED[way](server, cell, {}), how)
        return
    answers = [add_row_axis(cell.kind, one) for one in cell.answers]
    check(cell, lambda row: SERVED[way](server, cell, row), answers, is_with_others, is_served=True)
    if is_with_others and cell.kind.is_joined and not cell.kind.signature:
        assert calls_of(server, cell) > 1


@pytest.mark.parametrize(
    ("engine", "name"),
    [  # of the element types, those of "many types": JSON lines have no NaN
        (engine, name)
        for engine, name in HAD
        if name not in DTYPES and "run" not in KINDS[name].without
    ],
)
def test_a_run_answers_as_the_engine_itself(cells, engine, name, tmp_path):
    cell = cells[engine, name]
    found = run(cell, tmp_path)
    for row, got in enumerate(found):
        compare(cell, row, got, cell.answers[row])


def add_row_axis(kind, outputs):
    """Returns the reply to a request of one row; an output without a batch axis is the row's value.

    A request without inputs has no rows.
    """
    return outputs and {
        name: value if kind.outputs[name].is_batched or not kind.inputs else value[np.newaxis]
        for name, value in outputs.items()
    }


def check(cell, ask, answers, is_with_others, *, is_served=False):
    """Sends all rows, serially or from many clients at once, and checks the replies."""
    rows = range(len(cell.kind.rows))
    if not is_with_others:
        found = [(row, answer(ask, cell.kind.rows[row])) for row in rows]
    else:
        ready = threading.Barrier(CLIENTS)

        def client(first):
            ready.wait()
            order = [(first + row) % len(rows) for row in rows]
            return [(row, answer(ask, cell.kind.rows[row])) for row in order]

        with ThreadPoolExecutor(CLIENTS) as pool:
            found = [one for answers_of in pool.map(client, range(CLIENTS)) for one in answers_of]
    for row, got in found:
        compare(cell, row, got, answers[row], is_served=is_served)


def compare(cell, row, got, right, *, is_served=False):
    """Checks the answer to a row, or the text of its error."""
    words = cell.kind.words(cell.engine, row)
    if words:
        assert isinstance(got, Exception), f"row {row}: answered {got}"
        said = reason_of(got)
        assert words in said or (is_served and INSIDE in said), f"row {row}: {said}"
    elif isinstance(got, Exception):
        raise AssertionError(f"row {row}: {reason_of(got)}") from got
    else:
        assert_same(right, got, f"row {row}")


def answer(ask, row):
    try:
        return ask(row)
    except Exception as error:  # noqa: BLE001 - it is the answer, and compared
        return error


def assert_same(expected, got, where):
    """Compares types, shapes and every bit."""
    assert expected.keys() == got.keys(), where
    for name, right in expected.items():
        one, right = np.asarray(got[name]), np.asarray(right)
        assert (one.dtype, one.shape) == (right.dtype, right.shape), f"{where}, {name}"
        if right.dtype == object:
            assert [*map(as_bytes, one.flat)] == [*map(as_bytes, right.flat)], f"{where}, {name}"
        else:
            assert one.tobytes() == right.tobytes(), f"{where}, {name}: {one} {right}"


def as_bytes(text):
    assert isinstance(text, str | bytes), type(text)
    return text.encode() if isinstance(text, str) else text
