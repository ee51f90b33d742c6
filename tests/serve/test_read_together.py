"""Tests of small requests that arrive in one turn of the server's loop, and are parsed together."""

import asyncio
import contextlib
import gc
import http.client
import itertools
import json
import os
import socket
import threading
import uuid
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import modelflow
from modelflow.http.request import HttpRequest, RequestHead
from modelflow.serve.requests.request_batch import BatchMember
from modelflow.serve.rest.tf_serving import PredictReader
from modelflow.serve.server import ServeOptions, Server
from modelflow.unit import function
from modelflow.wire.json_outline import JsonLimits
from tests.prometheus import samples_of
from tests.serve.clients import TYPED, ask, send, served

PREDICT = "/v1/models/m:predict"
NUMBERS = st.floats(0, 1e3, width=32) | st.integers(0, 1000)  # an error below 0 has a random id
ROWS = (st.integers(2, 2) | st.integers(1, 3)).flatmap(
    lambda length: st.lists(
        st.lists(NUMBERS, min_size=length, max_size=length), min_size=1, max_size=8
    )
)
GOOD = ROWS.map(lambda rows: json.dumps({"instances": rows}).encode())
OTHERS = st.sampled_from(
    [
        b'{"inputs": [[1.0, 2.0]]}',
        b'{"inputs": {"input": [[1.0, 2.0]]}}',
        b'{"instances": [{"input": [1.0, 3.0]}]}',
        b'{"signature_name": "serving_default", "instances": [[5.0]]}',
        b'{"signature_name": "x", "instances": [[5.0]]}',
        b'{"instances": [[1.0, NaN]]}',
        b'{"instances": [[1.0]]} and more',
        b'{"instances": [[1.0], [1.0, 2.0]]}',
        b'{"instances": [["1"]]}',
        b'{"instances": [[true]]}',
        b'{"instances": [[1e39]]}',
        b'{"instances": [1.0]}',
        b'{"instances": [[[1.0]]]}',
        b'{"instances": [[]]}',
        b'{"instances": []}',
        b'{"instances": 5}',
        b'{"instances": [[1.0]], "inputs": [[1.0]]}',
        b"[" * 100 + b"]" * 100,
        b"{",
        b"[]",
        b"",
    ]
)


@pytest.fixture(scope="module")
def server():
    with served() as running:
        yield running


@pytest.fixture(scope="module")
def logged(tmp_path_factory):
    """Yields a server and its access log, as a pipe."""
    path = tmp_path_factory.mktemp("log") / "access"
    os.mkfifo(path)
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with served(access_log=str(path)) as running:
        os.set_blocking(reading, True)
        with os.fdopen(reading) as lines:
            yield running, lines


INFER = "/v2/models/m/infer"
SAME = st.integers(2, 2) | st.integers(1, 3)  # lengths of rows: mostly lengths that can be batched


@st.composite
def infer_requests(draw):
    """Open Inference requests: path, headers and body."""
    count, length = draw(st.integers(1, 8)), draw(SAME)
    row = st.lists(NUMBERS, min_size=length, max_size=length)
    rows = np.array(draw(st.lists(row, min_size=count, max_size=count)), np.float32)
    tensor: dict[str, Any] = {"name": "input", "datatype": "FP32", "shape": [*rows.shape]}
    document: dict[str, Any] = {"inputs": [tensor]}
    if draw(st.booleans()):
        document["id"] = draw(st.sampled_from(["a", "b"]))
    if draw(st.booleans()):
        asked_for: dict[str, Any] = {"name": draw(st.sampled_from(["output", "none"]))}
        if draw(st.booleans()):
            name = draw(st.sampled_from(["binary_data", "classification", "nothing"]))
            asked_for["parameters"] = {name: draw(st.sampled_from([True, 1]))}
        document["outputs"] = [asked_for]
    if draw(st.booleans()):
        name = draw(st.sampled_from(["timeout", "binary_data_output", "priority"]))
        document["parameters"] = {name: draw(st.sampled_from([True, 0, 60_000_000]))}
    tensor["datatype"] = draw(st.sampled_from(["FP32"] * 8 + ["INT64"]))
    tensor["name"] = draw(st.sampled_from(["input"] * 8 + ["other"]))
    if draw(st.booleans()):
        tensor["data"] = rows.tolist()
        return INFER, (), json.dumps(document).encode()
    tensor["parameters"] = {"binary_data_size": rows.nbytes - draw(st.sampled_from([0] * 8 + [1]))}
    head = json.dumps(document).encode()
    return INFER, (f"Inference-Header-Content-Length: {len(head)}",), head + rows.tobytes()


PREDICTS = (GOOD | OTHERS).map(lambda body: (PREDICT, (), body))
HEADERS = st.lists(
    st.sampled_from(
        [
            "X-Request-Id: one",
            "X-Request-Id: two",
            "Inference-Timeout-Ms: 60000",
            "Inference-Timeout-Ms: soon",
            "Content-Encoding: gzip",
            "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ]
    ),
    max_size=2,
    unique_by=lambda header: header.partition(":")[0],
)


def _message(body, path=PREDICT, headers=()):
    lines = [f"POST {path} HTTP/1.1", "Host: x", *headers, f"Content-Length: {len(body)}"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def _answers(server, pieces, count):
    """Returns the replies to requests that are sent in these pieces over one connection."""
    return [(status, json.loads(body)) for status, _, body in _whole_answers(server, pieces, count)]


def _whole_answers(server, pieces, count):
    host, port = server.address.removeprefix("http://").split(":")
    found = []
    with socket.create_connection((host, int(port)), timeout=60) as client:
        for piece in pieces:
            client.sendall(piece)
            if len(pieces) > 1:
                found.append(_whole_answer(client))
        while len(found) < count:
            found.append(_whole_answer(client))
    return found


def _answer(client):
    status, _, body = _whole_answer(client)
    return status, json.loads(body)


def _whole_answer(client):
    response = http.client.HTTPResponse(client)
    response.fp = client.makefile("rb", 0)  # nothing of the next reply is read
    response.begin()
    headers = {name.lower(): value for name, value in response.getheaders()}
    headers.pop("date", None)
    return response.status, headers, response.read()


def _logged(lines, count):
    """Returns the next lines of an access log, without times, connections and generated ids."""
    found = []
    for line in itertools.islice(lines, count):
        said = json.loads(line)
        for name in ("time", "client", "ms", "request_id"):
            if name != "request_id" or len(said[name]) == len(uuid.uuid4().hex):
                del said[name]
        found.append(sorted(said.items(), key=str))
    return sorted(found, key=str)


def _counted(server):
    """Returns the metrics' counts of the requests to a model."""
    _, _, text = send(server, "GET", "/metrics")
    found = samples_of(text.decode())
    return Counter({sample: found[sample] for sample in found if sample[0] in COUNTED})


COUNTED = {
    "modelflow_requests_total",
    "modelflow_requests_under_way",
    "modelflow_request_seconds_count",
    "modelflow_node_errors_total",
    "nv_inference_request_success",
    "nv_inference_request_failure",
    "nv_inference_count",
    ":tensorflow:serving:request_count",
    ":tensorflow:serving:request_latency_count",
}


@given(st.lists(st.tuples(PREDICTS | infer_requests(), HEADERS), min_size=1, max_size=12))
def test_requests_that_come_together_are_answered_logged_and_counted_as_each_alone(
    logged, requests
):
    server, lines = logged
    messages = [_message(body, path, (*headers, *more)) for (path, headers, body), more in requests]
    seen = []
    for pieces in (messages, [b"".join(messages)]):
        before = _counted(server)
        answers = _whole_answers(server, pieces, len(messages))
        for _, headers, _ in answers:
            if len(headers["x-request-id"]) == len(uuid.uuid4().hex):
                del headers["x-request-id"]  # made up
        counts = _counted(server)
        counts.subtract(before)
        next(lines)  # of the first request for the metrics
        seen.append((answers, _logged(lines, len(messages)), counts))
        next(lines)
    assert seen[1] == seen[0]


def test_rows_of_different_requests_are_not_mixed(server):
    bodies = [json.dumps({"instances": [[float(n)] * 2] * (n % 3 + 1)}).encode() for n in range(14)]
    found = _answers(server, [b"".join(map(_message, bodies))], len(bodies))
    assert [document["predictions"] for _, document in found] == [
        [float(n)] * (n % 3 + 1) for n in range(14)
    ]


def test_who_goes_before_its_request_is_read_counts_as_cancelled_and_holds_nobody_up():
    entered, go = threading.Event(), threading.Event()

    @modelflow.flowunit(name="mean")
    def wait(row):
        entered.set()
        go.wait(60)
        return row.sum()

    del function._declared["mean"]
    with served(wait, "batch_size=1, queue_size=1") as server:
        model = server.model("m")
        clients = []
        host, port = server.address.removeprefix("http://").split(":")
        for number in range(6):
            client = socket.create_connection((host, int(port)), timeout=60)
            client.sendall(_message(b'{"instances": [[%d]]}' % number))
            clients.append(client)
            while model.admission.under_way <= number:
                pass
        assert entered.wait(60)
        clients.pop().close()  # the flow had no room for its request
        while not model.figures.outcomes["CANCELLED"]:
            pass
        assert model.admission.under_way == 5
        go.set()
        assert [_answer(client)[1]["predictions"] for client in clients] == [
            [float(number)] for number in range(5)
        ]
        for client in clients:
            client.close()


def _waiting(count, **limits):
    """Returns a server whose model reports its calls and waits for an event."""
    entered, go = threading.Semaphore(0), threading.Event()

    @modelflow.flowunit(name="mean")
    def wait(row):
        entered.release()
        go.wait(60)
        if row.sum() > 100:
            raise modelflow.BadRequest(f"{row.sum():g} is too much")
        return row.sum()

    del function._declared["mean"]
    attributes = f"batch_size=1, queue_size={count}, threads=1"
    return served(wait, attributes, **limits), entered, go


def _connect(server):
    host, port = server.address.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=60)


def _row(number):
    return _message(b'{"instances": [[%d]]}' % number)


def test_those_for_which_there_is_no_room_are_told_when_to_come_again_and_the_others_answered():
    serving, entered, go = _waiting(8, max_requests=3)
    with serving as server, _connect(server) as client:
        client.sendall(b"".join(map(_row, range(8))))
        assert entered.acquire(timeout=60)
        model = server.model("m")
        while model.admission.refused["full"] < 5:
            pass
        go.set()
        found = []
        for _ in range(8):
            response = http.client.HTTPResponse(client)
            response.fp = client.makefile("rb", 0)
            response.begin()
            found.append((response.status, response.headers["Retry-After"], response.read()))
        assert [status for status, *_ in found] == [200] * 3 + [503] * 5
        assert all(int(again) >= 1 for _, again, _ in found[3:])
        assert b"3 requests under way" in found[3][2]
        assert (model.admission.under_way, model.figures.outcomes["OK"]) == (0, 3)


def test_who_goes_while_its_row_waits_in_the_flow_is_not_worked_for_and_counts_once():
    serving, entered, go = _waiting(8)
    with serving as server:
        model = server.model("m")
        clients = []
        for number in range(3):
            clients.append(_connect(server))
            clients[-1].sendall(_row(number))
            while model.admission.under_way <= number:
                pass
        assert entered.acquire(timeout=60)
        clients.pop(1).close()
        while not model.figures.outcomes["CANCELLED"]:
            pass
        go.set()
        assert [_answer(client)[1]["predictions"] for client in clients] == [[0.0], [2.0]]
        assert entered.acquire(timeout=60)  # for the last client; not for the client that has gone
        assert not entered.acquire(blocking=False)
        for client in clients:
            client.close()
        assert model.figures.outcomes == {"OK": 2, "CANCELLED": 1}


def test_each_of_those_that_wait_together_is_given_up_when_its_own_time_is_over():
    entered, go = threading.Semaphore(0), threading.Semaphore(0)

    @modelflow.flowunit(name="mean")
    def wait(row):
        entered.release()
        go.acquire(timeout=60)
        return row.sum()

    del function._declared["mean"]
    with (
        served(wait, "batch_size=1, queue_size=1, threads=1") as server,
        contextlib.ExitStack() as open_clients,
    ):
        model = server.model("m")
        clients = []

        def ask_for(number, *headers):
            client = open_clients.enter_context(_connect(server))
            client.sendall(_message(b'{"instances": [[%d]]}' % number, headers=headers))
            clients.append(client)
            while model.admission.under_way + model.figures.requests < len(clients):
                pass

        ask_for(0)  # the unit has the request
        assert entered.acquire(timeout=60)
        ask_for(1)  # in the model's queue
        ask_for(2)  # these three wait unread
        ask_for(3, "Inference-Timeout-Ms: 300")
        ask_for(4, "Inference-Timeout-Ms: 600")
        go.release()
        assert _answer(clients[0]) == (200, {"predictions": [0.0]})
        assert entered.acquire(timeout=60)  # and the queue has room for one of them
        assert _answer(clients[3])[0] == 504
        go.release()
        assert _answer(clients[1]) == (200, {"predictions": [1.0]})
        assert _answer(clients[4])[0] == 504  # although the unit does not return
        for _ in range(3):
            go.release()
        assert _answer(clients[2]) == (200, {"predictions": [2.0]})
        while model.admission.under_way:
            pass
        assert model.figures.outcomes == {"OK": 3, "DEADLINE_EXCEEDED": 2}


@contextlib.contextmanager
def _blocked():
    """Yields a server whose model blocks with a full queue; further requests wait unread."""
    serving, entered, go = _waiting(1)
    with serving as server, contextlib.ExitStack() as open_clients:
        model = server.model("m")

        def ask_for(body, path=PREDICT, headers=()):
            before = model.admission.under_way + model.figures.requests
            client = open_clients.enter_context(_connect(server))
            client.sendall(_message(body, path, headers))
            while model.admission.under_way + model.figures.requests == before:
                pass
            return client

        clients = [ask_for(b'{"instances": [[0]]}')]
        assert entered.acquire(timeout=60)
        clients += [ask_for(b'{"instances": [[1]]}') for _ in range(2)]
        yield server, ask_for
        go.set()
        assert [_answer(client)[0] for client in clients] == [200] * 3
        while model.admission.under_way:
            pass


LATE = {
    "header": (b'{"instances": [[5]]}', PREDICT, ("Inference-Timeout-Ms: 50",)),
    "columns": (b'{"inputs": [[5]]}', PREDICT, ("Inference-Timeout-Ms: 50",)),
    "parameter": (
        b'{"inputs": [{"name": "input", "datatype": "FP32", "shape": [1, 1], "data": [5]}], '
        b'"parameters": {"timeout": 50000}}',
        INFER,
        (),
    ),
}


@pytest.mark.parametrize(("timeout", "status"), [(50_000, 504), (-1, 400)])
def test_a_timeout_is_one_however_its_name_is_written(timeout, status):
    tensor = '{"name": "input", "datatype": "FP32", "shape": [1, 1], "data": [5]}'
    body = f'{{"inputs": [{tensor}], "parameters": {{"time\\u006fut": {timeout}}}}}'.encode()
    serving, entered, go = _waiting(8)
    with serving as server, _connect(server) as first, _connect(server) as second:
        first.sendall(_row(0))  # the unit has the request
        assert entered.acquire(timeout=60)
        second.sendall(_message(body, INFER))
        assert _answer(second)[0] == status
        go.set()
        assert _answer(first)[0] == 200


@pytest.mark.parametrize("late", LATE)
def test_a_deadline_passes_while_the_request_waits_unread_behind_others(late):
    with _blocked() as (server, ask_for):
        assert _answer(ask_for(*LATE[late]))[0] == 504
        assert server.model("m").figures.outcomes == {"DEADLINE_EXCEEDED": 1}


def test_short_requests_go_in_at_the_place_of_the_first_that_waits():
    seen, entered, go = [], threading.Semaphore(0), threading.Event()

    @modelflow.flowunit(name="mean")
    def note(row):
        seen.append(int(row[0]))
        entered.release()
        go.wait(60)
        return row.sum()

    del function._declared["mean"]
    read_at_once = ("Content-Encoding: identity",)
    with (
        served(note, "batch_size=1, queue_size=1, threads=1") as server,
        contextlib.ExitStack() as open_clients,
    ):
        model, clients = server.model("m"), []

        def ask_for(number, headers=()):
            client = open_clients.enter_context(_connect(server))
            client.sendall(_message(b'{"instances": [[%d]]}' % number, headers=headers))
            clients.append(client)
            while model.admission.under_way < len(clients):
                pass

        ask_for(0)
        assert entered.acquire(timeout=60)  # and keeps the request; the next waits in its queue
        for number in (1, 2):
            ask_for(number, read_at_once)
        ask_for(3)  # waits unread, after 2
        ask_for(4, read_at_once)
        ask_for(5)  # with 3
        ask_for(6, read_at_once)
        go.set()
        assert [_answer(client)[0] for client in clients] == [200] * 7
    assert seen == [0, 1, 2, 3, 5, 4, 6]


def _count_requests():
    gc.collect()
    return sum(type(one) is BatchMember for one in gc.get_objects())


def test_of_clients_that_have_gone_nothing_is_kept():
    with _blocked() as (server, ask_for):
        model = server.model("m")
        before = _count_requests()
        for number in range(8):
            ask_for(b'{"instances": [[1]]}').close()
            while model.figures.outcomes["CANCELLED"] <= number:
                pass
        reached = threading.Event()
        model.loop_queue.post(reached.set)
        assert reached.wait(60)
        assert _count_requests() == before


def test_outputs_stand_in_the_order_of_the_graph_whichever_comes_first():
    go = threading.Event()

    @modelflow.flowunit(name="slow")
    def slow(row):
        go.wait(60)
        return row.sum()

    @modelflow.flowunit(name="quick")
    def quick(row):
        go.set()
        return row.sum()

    graph = (
        TYPED.format(node="flowunit=slow")
        .replace("output [type=output]", "output [type=output] last [type=output] quick")
        .replace("mean -> output", "mean -> output\n    input -> quick -> last")
    )
    flow = modelflow.Flow(graph, units=[slow, quick])
    rows = {"name": "input", "datatype": "FP32", "shape": [2, 1], "data": [1, 2]}
    with Server({"m": flow}, ServeOptions(http_port=0)) as server:
        message = _message(json.dumps({"inputs": [rows]}).encode(), INFER)
        ((status, found),) = _answers(server, [message], 1)
    assert (status, [tensor["name"] for tensor in found["outputs"]]) == (200, ["output", "last"])


@pytest.mark.parametrize(("dtype", "status"), [("longdouble", 400), (">f4", 200)])
def test_a_type_that_binary_has_not_is_refused_to_those_alone_that_want_it(dtype, status):
    @modelflow.flowunit(name="mean", outputs=["strange", "plain"])
    def both(row):
        return {"strange": row.astype(dtype), "plain": row}

    del function._declared["mean"]
    graph = TYPED.format(node="").replace(
        "mean -> output", "mean\n    mean:strange -> output\n    mean:plain -> plain"
    )
    graph = graph.replace("output [type=output]", "output [type=output] plain [type=output]")
    flow = modelflow.Flow(graph.partition("[serve.output")[0], units=[both])
    tensor = {"name": "input", "datatype": "FP32", "shape": [1, 1], "data": [1]}
    bodies = [
        {"inputs": [tensor], "outputs": [{"name": name, "parameters": {"binary_data": True}}]}
        for name in ("plain", "output")
    ]
    messages = [_message(json.dumps(body).encode(), INFER) for body in bodies]
    with Server({"m": flow}, ServeOptions(http_port=0)) as server:
        alone = _whole_answers(server, messages, 2)
        assert _whole_answers(server, [b"".join(messages)], 2) == alone
    assert [found[0] for found in alone] == [200, status]
    assert status != 200 or b'"datatype":"FP32"' in alone[1][2]


def test_texts_are_bytes_however_long_those_of_others_are():
    @modelflow.flowunit(name="mean")
    def text(row):
        return np.str_("a" * int(row[0]))

    del function._declared["mean"]
    graph = TYPED.format(node="").partition("[serve.output")[0]
    with Server({"m": modelflow.Flow(graph, units=[text])}, ServeOptions(http_port=0)) as server:
        tensor = {"name": "input", "datatype": "FP32", "shape": [1, 1]}
        bodies: list[dict[str, Any]] = [
            {"inputs": [{**tensor, "data": [length]}]} for length in (1, 9)
        ]
        messages = [_message(json.dumps(body).encode(), INFER) for body in bodies]
        found = _answers(server, [b"".join(messages)], 2)
        asked_for = {"name": "output", "parameters": {"classification": 1}}
        bodies = [{**body, "outputs": [asked_for]} for body in bodies]
        messages = [_message(json.dumps(body).encode(), INFER) for body in bodies]
        alone = _answers(server, messages, 2)
        assert _answers(server, [b"".join(messages)], 2) == alone
    assert [document["outputs"][0]["datatype"] for _, document in found] == ["BYTES"] * 2
    assert [document["outputs"][0]["data"] for _, document in found] == [["a"], ["a" * 9]]


def test_an_item_that_fails_is_told_its_error_and_the_others_their_answers():
    serving, _, go = _waiting(8)
    go.set()
    with serving as server:
        found = _answers(server, [b"".join(map(_row, (1, 101, 2)))], 3)
        assert [status for status, _ in found] == [200, 400, 200]
        assert "101 is too much" in found[1][1]["error"]
        assert server.model("m").figures.rows == 2
        assert server.model("m").figures.failed_rows == 1


def test_rows_that_wait_when_the_flow_ends_are_answered():
    serving, entered, go = _waiting(1)
    with serving as server, _connect(server) as client:
        client.sendall(b"".join(map(_row, range(6))))  # some find no room in the flow
        assert entered.acquire(timeout=60)
        model = server.model("m")
        stopping = threading.Thread(target=model.flow.stop, kwargs={"drain": False})
        stopping.start()
        go.set()
        stopping.join()
        found = [_answer(client) for _ in range(6)]
        assert {status for status, _ in found} <= {200, 503}
        assert found[-1][0] == 503
        while model.admission.under_way:
            pass


def test_what_waits_unread_when_its_model_is_unloaded_is_answered_by_it():
    serving, entered, go = _waiting(1, is_repository_open=True)
    with serving as server, contextlib.ExitStack() as open_clients:
        model = server.model("m")
        bodies = [b'{"instances": [[%d]]}' % number for number in range(4)]
        bodies += [b'{"instances": [[4], [5]]}', b'{"inputs": [[6]]}', b'{"instances": [[7]]}']
        clients = []
        for count, body in enumerate(bodies):
            clients.append(open_clients.enter_context(_connect(server)))
            clients[-1].sendall(_message(body))
            while model.admission.under_way <= count:
                pass
        assert entered.acquire(timeout=60)
        assert ask(server, "/v2/repository/models/m/unload", {})[0] == 200
        go.set()
        found = [_answer(client) for client in clients]
        assert [status for status, _ in found] == [200] * 7, found
        assert found[4][1] == {"predictions": [4.0, 5.0]}
        assert (model.admission.under_way, model.figures.outcomes["OK"]) == (0, 7)


def test_who_goes_when_the_flow_has_just_ended_is_counted_once():
    with served() as server:
        model = server.model("m")
        model.flow.stop()
        head = RequestHead("POST", PREDICT)
        http_requests = [HttpRequest(head, "", lambda *_: None, model.loop_queue) for _ in range(2)]
        for http_request in http_requests:
            http_request.body = b'{"instances": [[1.0]]}'

        def come_and_go():
            reader = PredictReader(server.model, ServeOptions())
            for http_request in http_requests:
                model.pending.add(http_request, reader, None)
            # After their submission, and before they learn that the flow has no room.
            asyncio.get_running_loop().call_soon(http_requests[0].on_cancel)

        model.loop_queue.post(come_and_go)
        while model.figures.requests < 2:
            pass
        assert (model.admission.under_way, model.figures.requests) == (0, 2)


def test_a_graph_without_outputs_answers_that_nothing_came_out():
    @modelflow.flowunit(name="mean", outputs=[])
    def take(row):
        assert len(row)

    del function._declared["mean"]
    graph = TYPED.format(node="").replace("output [type=output]", "").replace("-> output", "")
    flow = modelflow.Flow(graph.partition("[serve.output")[0], units=[take])
    with Server({"m": flow}, ServeOptions(http_port=0)) as server:
        found = _answers(server, [b"".join(map(_row, range(3)))], 3)
        assert found == [(200, {"predictions": []})] * 3
        model = server.model("m")
        assert (model.admission.under_way, model.figures.outcomes["OK"]) == (0, 3)


DOUBTFUL = [
    b'{"instances": [[[[1]]]], "instances": [[1]]}',
    b'{"instances": [[1, 2, 3, 4]], "instances": [[1]]}',
    b'{"instances": [[[], [], [], []]]}',
]


@pytest.mark.parametrize("body", DOUBTFUL)
def test_what_is_over_the_limits_of_json_is_refused_whoever_comes_with_it(body):
    @modelflow.flowunit(name="mean")
    def whole(row):
        return row

    del function._declared["mean"]
    graph = TYPED.format(node="").replace("shape = [-1]", "").replace("shape = []", "")
    flow = modelflow.Flow(graph, units=[whole])
    limits = JsonLimits(depth=4, elements=3)
    with Server({"m": flow}, ServeOptions(http_port=0, json=limits)) as server:
        (alone,) = _answers(server, [_message(body)], 1)
        messages = b"".join(map(_message, (body, b'{"instances": [[1, 2]]}')))
        together, other = _answers(server, [messages], 2)
        assert alone == together
        assert (alone[0] in (400, 429), "at most" in alone[1]["error"]) == (True, True)
        assert other == (200, {"predictions": [[1.0, 2.0]]})


def test_requests_that_cannot_be_read_together_are_read_each_by_itself(server, monkeypatch, caplog):
    def rows(*_):
        raise MemoryError

    monkeypatch.setattr(PredictReader, "rows", rows)
    found = _answers(server, [b"".join(map(_row, range(3)))], 3)
    assert [document["predictions"] for _, document in found] == [[0.0], [1.0], [2.0]]
    assert "could not be read together" in caplog.text
    assert server.model("m").admission.under_way == 0


@pytest.mark.parametrize(
    ("wrong", "alone"),
    [
        (b'{"instances": [["a"]]}', 1),  # cannot be batched with any other
        (b'{"inputs": [[5.0]]}', 1),  # in columns
        (b'{"instances": [[1.0, 2.0]]}', 0),  # has another length
        (b"{", 1),
    ],
)
def test_a_request_that_fits_with_no_other_has_no_other_read_alone(
    server, monkeypatch, wrong, alone
):
    bodies = []
    ask = PredictReader.ask

    def noted(reader, http_request, *more):
        bodies.append(http_request.body)
        ask(reader, http_request, *more)

    monkeypatch.setattr(PredictReader, "ask", noted)
    messages = [*map(_row, range(5)), _message(wrong), *map(_row, range(5, 12))]
    found = _answers(server, [b"".join(messages)], len(messages))
    del found[5]
    assert [document["predictions"] for _, document in found] == [[float(n)] for n in range(12)]
    assert bodies == [wrong] * alone


def test_where_answers_cannot_be_written_each_client_is_told_so(server, monkeypatch):
    def answers(*_):
        raise MemoryError

    monkeypatch.setattr(PredictReader, "answers", answers)
    found = _answers(server, [b"".join(map(_row, range(3)))], 3)
    assert [status for status, _ in found] == [500] * 3
    assert "inside the server" in found[0][1]["error"]
    assert server.model("m").admission.under_way == 0
