"""Tests of requests of one item, as users and browsers send them."""

import base64
import json

import numpy as np
import pytest

import modelflow
from modelflow.image import Box
from modelflow.serve.server import ServeOptions, Server
from tests.serve.clients import ask, send, served

GENERATE = "/v2/models/m/generate"
UNTYPED = """digraph m {
    input [type=input]
    work [batch_size=1]
    output [type=output]
    input -> work -> output
}"""


@pytest.fixture(scope="module")
def numbers():
    with served() as running:
        yield running


@pytest.fixture(scope="module")
def echo():
    @modelflow.flowunit(name="work")
    def work(item):
        return item

    with Server({"m": modelflow.Flow(UNTYPED, units=[work])}, ServeOptions(http_port=0)) as running:
        yield running


def test_a_value_is_answered_with_a_value(numbers):
    status, found, headers = ask(numbers, GENERATE, {"input": [1.0, 3.0]})
    assert (status, found) == (200, {"output": 2.0})
    assert headers["content-type"] == "application/json"


def test_what_curl_sends_without_a_word_is_read_as_json(numbers):
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    status, _, body = send(numbers, "POST", GENERATE, b'{"input": [4.0]}', headers)
    assert (status, json.loads(body)) == (200, {"output": 4.0})


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("text", "text"),
        ({"boxes": [1, 2]}, {"boxes": [1, 2]}),
        ([1, 2], [1, 2]),
        (2.5, 2.5),
        ({"b64": base64.b64encode(b"text").decode()}, "text"),
        ({"b64": base64.b64encode(b"\xff\xd8").decode()}, {"b64": "/9g="}),
    ],
)
def test_where_nothing_is_said_of_types_a_value_is_what_json_says(echo, value, expected):
    assert ask(echo, GENERATE, {"input": value})[:2] == (200, {"output": expected})


def test_a_body_that_is_no_json_is_the_only_input(echo):
    headers = {"Content-Type": "text/plain"}
    status, _, body = send(echo, "POST", GENERATE, b"a picture", headers)
    assert (status, json.loads(body)) == (200, {"output": "a picture"})


def test_an_output_of_many_buffers_is_a_list():
    class Count(modelflow.FlowUnit):
        SPEC = modelflow.FlowUnitSpec(
            "work",
            {"cpu": lambda: Count()},
            inputs=(modelflow.Port("in"),),
            outputs=(modelflow.Port("out"),),
            kind=modelflow.Stream(),
        )

        def process(self, ctx):
            for buffer in ctx.input():
                ctx.emit(list(range(int(buffer.data))))

    with Server({"m": modelflow.Flow(UNTYPED, units=[Count])}, ServeOptions(http_port=0)) as server:
        assert ask(server, GENERATE, {"input": 3})[:2] == (200, {"output": [0, 1, 2]})


@pytest.mark.parametrize(
    "extras",
    [
        {"timeout": 60_000_000, "id": "7"},
        {"parameters": {"priority": 1}, "id": "7"},
        {"parameters": {}, "priority": 0},
    ],
)
def test_what_is_no_input_is_a_parameter(numbers, extras):
    document = {"input": [1.0, 3.0], **extras}
    assert ask(numbers, GENERATE, document)[:2] == (200, {"output": 2.0})
    status, _, events = send(numbers, "POST", f"{GENERATE}_stream", json.dumps(document))
    assert (status, events) == (200, b'data: {"output": 2.0}\n\n')


@pytest.mark.parametrize(
    ("extras", "text"),
    [
        ({"more": [1, 2]}, "parameter 'more' is not supported"),
        ({"temperature": 0.5}, "parameter 'temperature' is not supported"),
        ({"parameters": [1]}, "'parameters' is list; expected an object"),
        ({"parameters": {"more": {}}}, "parameter 'more' is not supported"),
        ({"sequence_id": 3}, "parameter 'sequence_id': model 'm' takes no sequences"),
        ({"parameters": {"priority": 7}}, "parameter 'priority': got 7"),
        ({"triton_x": True}, "parameter 'triton_x' is not supported"),
    ],
)
def test_a_parameter_that_is_none_or_not_done_is_refused(numbers, extras, text):
    status, found, _ = ask(numbers, GENERATE, {"input": [1.0], **extras})
    assert status == 400
    assert text in found["error"]


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"inputs": [1.0]}, "got ['inputs']; expected the inputs ['input']"),
        ([1.0], 'expected a JSON object, {"input": ...}'),
        ({"input": ["x"]}, ""),
        ({"input": 1.0}, "input 'input': got an item of shape ()"),
        ({"input": [[1.0]]}, "got an item of shape (1, 1)"),
        (b"{", ""),
    ],
)
def test_what_is_wrong_is_said(numbers, document, text):
    status, found, _ = ask(numbers, GENERATE, document, "POST")
    assert status == 400
    assert text in found["error"]


def test_a_raw_body_for_an_input_of_numbers_is_refused(numbers):
    status, _, body = send(numbers, "POST", GENERATE, b"x", {"Content-Type": "image/jpeg"})
    assert status == 400
    assert "is for an input of bytes" in json.loads(body)["error"]


def test_a_failure_is_told(numbers):
    status, found, _ = ask(numbers, GENERATE, {"input": []})
    assert (status, "nothing to take the mean of" in found["error"]) == (400, True)
    assert np.isclose(ask(numbers, GENERATE, {"input": [5.0]})[1]["output"], 5.0)


def form(*fields, end="\r\n--line--\r\n"):
    parts = [
        f'--line\r\nContent-Disposition: form-data; name="{name}"; filename="x"\r\n'.encode()
        + b"Content-Type: image/png\r\n\r\n"
        + content
        for name, content in fields
    ]
    return b"\r\n".join(parts) + end.encode()


FORM = {"Content-Type": "multipart/form-data; boundary=line"}


def test_a_file_in_a_form_is_the_only_input_whatever_its_name(echo):
    content = b"\x89PNG\r\n--lin\r\n\0\xff"
    status, _, body = send(echo, "POST", GENERATE, form(("picture", content)), FORM)
    assert (status, json.loads(body)) == (
        200,
        {"output": {"b64": base64.b64encode(content).decode()}},
    )


def test_fields_of_numbers_are_json(numbers):
    status, _, body = send(numbers, "POST", GENERATE, form(("input", b"[4.0, 6.0]")), FORM)
    assert (status, json.loads(body)) == (200, {"output": 5.0})


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        (form(("a", b"1"), ("b", b"2")), FORM, "got ['a', 'b']; expected the inputs ['input']"),
        (form(("a", b"1"), ("a", b"2")), FORM, "the field 'a' twice"),
        (form(("", b"1")), FORM, "a field without a name"),
        (form(("a", b"1"), end="\r\n--line"), FORM, "end before the last boundary"),
        (b"", FORM, "end before the last boundary"),
        (b"no form at all", FORM, "form: "),
        (form(("a", b"1")), {"Content-Type": "multipart/form-data"}, "expected a boundary"),
        (form(*((str(n), b"1") for n in range(101))), FORM, "more than 100 fields"),
        (form(("a" * 5000, b"1")), FORM, "header size"),
        (form(('a"\r\nx: y' * 10, b"1")), FORM, "header count"),
        (
            form(),
            {"Content-Type": "multipart/form-data" + ";" * 2000},
            "content type of 2019 bytes",
        ),
    ],
)
def test_a_form_that_is_none_is_told_so(echo, body, kind, message):
    status, _, text = send(echo, "POST", GENERATE, body, kind)
    assert status == 400, text
    assert message in json.loads(text)["error"]


def test_boxes_are_answered_with_the_names_of_their_numbers():
    @modelflow.flowunit(name="work")
    def work(item):
        return [Box(1, 2, 3, 4, label="cat")]

    with Server({"m": modelflow.Flow(UNTYPED, units=[work])}, ServeOptions(http_port=0)) as running:
        _, found, _ = ask(running, GENERATE, {"input": 1})
        text = ask(running, "/v1/models/m:predict", {"instances": [1]})[1]["predictions"][0]
    cat = {"x": 1, "y": 2, "w": 3, "h": 4, "score": 1.0, "class_id": 0, "label": "cat"}
    assert found == {"output": [cat]}
    assert json.loads(text) == [cat]
