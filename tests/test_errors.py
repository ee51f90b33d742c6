import importlib

import pytest

import modelflow
from modelflow import errors
from modelflow.errors import FlowFailed, FlowUnitError, describe_error


class Mute(Exception):  # noqa: N818
    def __str__(self):
        raise RuntimeError("no text")


def test_an_exception_is_shown_by_its_class_and_what_it_says():
    assert describe_error(ValueError("too wide")) == "ValueError: too wide"
    assert describe_error(KeyError()) == "KeyError"
    assert describe_error(Mute("x")) == "Mute"


@modelflow.flowunit
def mute(value):
    raise Mute


@pytest.mark.parametrize("workers", ["thread", "process"])
def test_an_exception_that_cannot_say_anything_is_an_error_of_its_buffer(workers):
    text = f"digraph {{ i [type=input] mute [workers={workers}] o [type=output] i -> mute -> o }}"
    with modelflow.Flow(text, units=[mute]) as flow:
        stream = flow.create_stream_io()
        stream.send("i", 1)
        error = stream.recv("o", errors="return").error
    assert isinstance(error, FlowUnitError)
    assert error.message.endswith("Mute")


def test_a_flow_that_failed_says_why():
    node = FlowUnitError("no such file", node="infer", unit="model", phase="open")
    causes = [node, node, ValueError("odd"), RuntimeError()]
    assert str(FlowFailed("flow 'f' failed", causes)) == (
        "flow 'f' failed: node 'infer' (unit 'model') failed in open: no such file; "
        "ValueError: odd; RuntimeError"
    )
    many = FlowFailed("flow 'f' failed", [ValueError(str(number)) for number in range(12)])
    assert str(many).endswith("ValueError: 9; and 2 more")


def test_an_error_of_a_unit_shows_its_node():
    error = FlowUnitError("odd", node="infer", unit="model")
    assert repr(error) == """FlowUnitError("node 'infer' (unit 'model') failed in process: odd")"""


def test_an_error_of_a_unit_knows_the_line_of_the_users_code(tmp_path, monkeypatch):
    path = tmp_path / "mine.py"
    path.write_text("import json\n\ndef parse(text):\n    return json.loads(text)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    mine = importlib.import_module("mine")
    with pytest.raises(ValueError, match="Expecting") as caught:
        mine.parse("{")
    error = FlowUnitError.from_exception(caught.value, node="a", unit="b")
    assert error.where == "mine.py:4"  # the position is not in json, which raised the error
    monkeypatch.chdir("/")
    assert error.where in (f"{path}:4", str(path)[1:] + ":4")
    assert FlowUnitError("no cause", node="a", unit="b").where == ""
    assert FlowUnitError.from_exception(ValueError(), node="a", unit="b").where == ""


def test_a_former_name_works_and_says_what_it_is_called_now():
    with pytest.warns(DeprecationWarning, match=r"modelflow\.errors\.told is now format_error"):
        assert errors.told is errors.format_error
    with pytest.raises(AttributeError, match="has no attribute 'tolled'"):
        errors.tolled  # noqa: B018
