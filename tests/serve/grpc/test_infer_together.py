"""Calls of ``ModelInfer`` that come in one turn of the server's loop, and are read together."""

import re
from urllib.parse import unquote

import grpc
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelflow.serve.grpc.infer_rows import InferRows
from modelflow.serve.options import GrpcKind
from modelflow.wire.proto import OPEN_INFERENCE
from tests.serve.grpc.http2 import wire as h2
from tests.serve.grpc.stub import OIP, grpc_served, infer, stub
from tests.serve.test_server import Gate

ANSWER = OPEN_INFERENCE["inference.ModelInferResponse"]


def rows(count, length, dtype=np.float32):
    return np.arange(count * length, dtype=dtype).reshape(count, length)


def changed(change, *args, **more):
    message = infer(*args, **more)
    change(message)
    return message


def of_parameters(message):
    message.parameters["timeout"].int64_param = 60_000_000


def of_parameters_that_are_wrong(message):
    message.parameters["timeout"].string_param = "soon"


def of_a_priority(message):
    message.parameters["priority"].int64_param = 1


def of_an_input_elsewhere(message):
    message.inputs[0].parameters["shared_memory_region"].string_param = "there"


def of_classes(message):
    message.outputs.add(name="output").parameters["classification"].int64_param = 1


def of_bytes(count):
    """A message of the usual shape, with so many bytes."""
    return changed(lambda one: one.raw_input_contents.__setitem__(0, bytes(count)), rows(1, 2))


def twice(message):
    message.inputs.add().CopyFrom(message.inputs[0])
    message.raw_input_contents.append(message.raw_input_contents[0])


OTHERS = [
    of_bytes(0),
    of_bytes(4),
    of_bytes(12),
    infer(rows(2, 2)),
    infer(rows(0, 2)),
    infer(rows(1, 0)),
    infer(rows(1, 2)[0]),
    infer(rows(1, 2).reshape(1, 1, 2)),
    infer(np.float32([[-1.0]])),
    infer(rows(1, 2), raw=False),
    infer(rows(1, 2), id="a"),
    infer(rows(1, 2), model_name="nobody"),
    infer(rows(1, 2), model_version="1"),
    infer(rows(1, 2), model_version="7"),
    infer(rows(1, 2), model_version="x"),
    changed(of_parameters, rows(1, 2)),
    changed(of_parameters_that_are_wrong, rows(1, 2)),
    changed(of_a_priority, rows(1, 2)),
    changed(of_an_input_elsewhere, rows(1, 2)),
    changed(of_classes, rows(1, 2)),
    changed(twice, rows(1, 2)),
    changed(lambda one: one.inputs.add(name="more", datatype="FP32", shape=[0]), rows(1, 2)),
    changed(lambda one: one.outputs.add(name="output"), rows(1, 2)),
    changed(lambda one: one.outputs.add(name="nothing"), rows(1, 2)),
    changed(lambda one: one.inputs[0].contents.fp32_contents.append(1), rows(1, 2)),
    changed(lambda one: setattr(one.inputs[0], "datatype", "FP64"), rows(1, 2)),
    changed(lambda one: setattr(one.inputs[0], "datatype", "INT32"), rows(1, 2)),
    changed(lambda one: setattr(one.inputs[0], "name", "x"), rows(1, 2)),
    changed(lambda one: one.inputs[0].shape.append(2), rows(1, 2)),
    changed(lambda one: one.inputs[0].shape.append(-1), rows(1, 2)),
    changed(lambda one: one.raw_input_contents.append(b""), rows(1, 2)),
    changed(lambda one: one.ClearField("inputs"), rows(1, 2)),
    changed(lambda one: one.ClearField("raw_input_contents"), rows(1, 2)),
    OPEN_INFERENCE["inference.ModelInferRequest"](),
    OPEN_INFERENCE["inference.ModelInferRequest"](model_name="nobody"),
]
GOOD = st.tuples(st.integers(1, 3), st.integers(0, 99)).map(
    lambda drawn: infer(rows(1, drawn[0]) + np.float32(drawn[1]))
)
ASKED = st.lists(GOOD | st.sampled_from(OTHERS), min_size=1, max_size=10)


def masked(text):
    return re.sub(r"\b[0-9a-f]{12}\b", "(id)", text)


def together(server, messages):
    """What calls are answered that come in one piece: status, text and message of each."""
    with h2.connected(server) as wire:
        for number in (1, 3):  # so that the head is known
            wire.send(h2.call(number, h2.LIVE, h2.framed(b"")))
            wire.answer(number)
        for number in (5, 7):
            wire.send(h2.call(number))
            wire.answer(number)
        numbers = range(9, 9 + 2 * len(messages), 2)
        asked = zip(numbers, messages, strict=True)
        wire.send(*(h2.call(number, body=h2.asked(message)) for number, message in asked))
        found = {number: [] for number in numbers}
        while not all(frames and frames[-1].flags & h2.END for frames in found.values()):
            one = wire.until(h2.DATA, h2.HEADERS)
            found[one.stream].append(one)
    return [answered(frames) for frames in found.values()]


def answered(frames):
    last = frames[-1].body
    (status,) = re.findall(rb"grpc-status[\x01\x02](\d+)", last)
    said = last.partition(b"grpc-message")[2]
    text = said[1 : 1 + said[0]] if said else b""
    if said and said[0] == 127:
        length, rest = said[1] + 127, said[2:]
        if said[1] >= 128:
            length, rest = (said[1] & 127) + (said[2] << 7) + 127, said[3:]
        text = rest[:length]
    data = b"".join(one.body for one in frames if one.kind == h2.DATA)
    answer = ANSWER.FromString(data[5:]) if data else None
    return int(status), masked(unquote(text.decode())), answer


def alone(client, message):
    """The same, of a call by itself."""
    try:
        return 0, "", client.method(OIP, "ModelInfer")(message, timeout=h2.SECONDS)
    except grpc.RpcError as error:
        return error.code().value[0], masked(error.details()), None


@pytest.fixture(scope="module")
def server():
    with grpc_served(grpc_server=GrpcKind.NATIVE) as running:
        yield running


@pytest.fixture(scope="module")
def client():
    """Asks a server that takes every call by itself."""
    with grpc_served(grpc_server=GrpcKind.GRPCIO) as running, stub(running) as found:
        yield found


@settings(max_examples=80, deadline=None)
@given(messages=ASKED)
def test_calls_that_come_together_are_answered_as_each_alone(server, client, messages):
    assert together(server, messages) == [alone(client, message) for message in messages]
    model = server.model("m")
    while model.admission.under_way:
        pass


@pytest.mark.parametrize("message", OTHERS, ids=range(len(OTHERS)))
def test_whatever_else_is_asked_is_answered_as_alone_between_those_that_go_together(
    server, client, message
):
    messages = [infer(rows(1, 2)), message, infer(rows(1, 2) + np.float32(4))]
    assert together(server, messages) == [alone(client, one) for one in messages]


def test_calls_that_come_in_one_piece_are_read_at_once(server, monkeypatch):
    read, counts = InferRows.rows, []

    def counting(self, bodies, model):
        counts.append(len(bodies))
        return read(self, bodies, model)

    monkeypatch.setattr(InferRows, "rows", counting)
    together(server, [infer(rows(1, 2))] * 5)
    assert max(counts) == 5


def test_rows_of_one_shape_are_read_together(server):
    reader, model = InferRows(None), server.model("m")
    messages = [infer(rows(1, 2) + np.float32(n)) for n in range(3)]
    places, found = reader.rows([*messages, *OTHERS, infer(rows(1, 2))], model)
    assert [*places[:3], places[-1]] == [0, 1, 2, 3 + len(OTHERS)]
    np.testing.assert_array_equal(found[:3], [[0, 1], [1, 2], [2, 3]])


def test_where_there_is_no_room_those_for_which_there_is_are_answered_and_the_others_refused():
    gate = Gate()
    with (
        grpc_served(gate.unit, gate.NODE, grpc_server=GrpcKind.NATIVE, max_requests=2) as server,
        h2.connected(server) as wire,
    ):
        gate.go.set()
        for number in (1, 3):
            wire.send(h2.call(number))
            wire.answer(number)
        gate.go.clear()
        wire.send(*(h2.call(number, body=h2.asked(infer(rows(1, 1)))) for number in (5, 7, 9, 11)))
        refused = [wire.answer(9), wire.answer(11)]
        gate.go.set()
        taken = [wire.answer(5), wire.answer(7)]
    assert [answered(frames)[0] for frames in refused] == [14, 14]
    assert all("2 requests under way" in answered(frames)[1] for frames in refused)
    assert [answered(frames)[0] for frames in taken] == [0, 0]


def test_who_gives_up_a_call_before_it_is_read_counts_as_cancelled_and_holds_nobody_up():
    gate = Gate()
    reset = h2.frame(h2.RESET, 0, 15, h2.CANCEL.to_bytes(4, "big"))
    with (
        grpc_served(gate.unit, gate.NODE, grpc_server=GrpcKind.NATIVE) as server,
        h2.connected(server) as wire,
    ):
        gate.go.set()
        for number in (1, 3):
            wire.send(h2.call(number))
            wire.answer(number)
        model = server.model("m")
        while model.admission.under_way:
            pass
        gate.go.clear()
        for count, number in enumerate(range(5, 17, 2)):
            wire.send(h2.call(number, body=h2.asked(infer(rows(1, 1) + np.float32(number)))))
            while model.admission.under_way <= count:
                pass
        wire.send(reset)  # there was no room for it in the flow
        while not model.figures.outcomes["CANCELLED"]:
            pass
        assert model.admission.under_way == 5
        gate.go.set()
        found = [answered(wire.answer(number)) for number in range(5, 15, 2)]
    assert [status for status, *_ in found] == [0] * 5
    assert 15.0 not in gate.seen
    assert model.figures.outcomes == {"OK": 7, "CANCELLED": 1}
