import pytest

import modelflow
from modelflow.errors import FlowUnitError, described


class Mute(Exception):  # noqa: N818
    def __str__(self):
        raise RuntimeError("no text")


def test_an_exception_is_shown_by_its_class_and_what_it_says():
    assert described(ValueError("too wide")) == "ValueError: too wide"
    assert described(KeyError()) == "KeyError"
    assert described(Mute("x")) == "Mute"


@modelflow.flowunit
def mute(value):
    raise Mute


@pytest.mark.parametrize("workers", ["thread", "process"])
def test_an_exception_that_cannot_say_anything_is_an_error_of_its_buffer(workers):
    text = f"digraph {{ i [type=input] mute [workers={workers}] o [type=output] i -> mute -> o }}"
    with modelflow.Flow(text, units=[mute]) as flow:
        stream = flow.create_stream_io()
        stream.send("i", 1)
        error = stream.recv_buffer("o").error
    assert isinstance(error, FlowUnitError)
    assert error.message.endswith("Mute")
