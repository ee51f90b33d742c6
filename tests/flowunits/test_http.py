"""HTTP nodes with real clients: answers, errors, limits, time-outs, TLS, a graceful end."""

import http.client
import json
import socket
import ssl
import threading

import numpy as np
import pytest

import modelflow
from flowunits import httpserver_sync_receive, httpserver_sync_reply
from modelflow import Buffer, ConfigError, GraphError
from modelflow.errors import FlowFailed, MissingDependencyError
from modelflow.testing import run_unit
from tests import programs
from tests.flowunits.http_service import GRAPH, Service, free_port


def echo(buffer: Buffer):
    """Returns the request."""
    return buffer.data


def test_the_answer_goes_to_who_asked():
    with Service(echo) as service:
        answers = {}

        def ask(number):
            answers[number] = service.ask(f"body {number}".encode())

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for number in range(40):
        status, body, headers = answers[number]
        assert (status, body) == (200, f"body {number}".encode())
        assert headers["content-type"] == "application/octet-stream"


def test_many_requests_pass_one_connection():
    with Service(echo) as service:
        connection = service.connect()
        for number in range(20):
            connection.request("PUT", "/", str(number))
            assert connection.getresponse().read() == str(number).encode()
        connection.close()


def test_the_meta_say_what_was_asked():
    def told(buffer: Buffer):
        """Returns the meta."""
        names = ("method", "uri", "endpoint", "size")
        found = {name: buffer.get(name) for name in names}
        return {
            **found,
            "agent": buffer.get("headers")["x-agent"],
            "type": type(buffer.data).__name__,
        }

    with Service(told, path="/v1/") as service:
        status, body, headers = service.ask(b"abc", "/v1/a?b=c", "PUT", {"X-Agent": "me"})
        assert service.ask(b"", "/v2")[0] == 404
        assert service.ask(b"", "/health", "GET")[:2] == (200, b"ok")
    assert (status, headers["content-type"]) == (200, "application/json")
    assert json.loads(body) == {
        "method": "PUT",
        "uri": "/v1/a?b=c",
        "endpoint": service.endpoint,
        "size": 3,
        "agent": "me",
        "type": "bytes",
    }


def test_status_headers_and_bodies_are_the_graphs():
    def made(buffer: Buffer):
        """Returns an answer."""
        kinds = {
            b"text": Buffer("grüße", {"status": 201, "headers": {"X-Own": "7"}}),
            b"array": np.arange(4, dtype=np.float32).reshape(2, 2),
            b"object": object(),
            b"status": Buffer("x", {"status": 99}),
            b"header": Buffer("x", {"headers": {"a": "b\r\nc: d"}}),
        }
        return kinds[buffer.data]

    with Service(made) as service:
        status, body, headers = service.ask(b"text")
        assert (status, body.decode(), headers["x-own"]) == (201, "grüße", "7")
        assert headers["content-type"] == "text/plain; charset=utf-8"
        assert json.loads(service.ask(b"array")[1]) == [[0, 1], [2, 3]]
        assert service.ask(b"object")[0] == 500
        assert service.ask(b"status")[0] == 500
        status, _, headers = service.ask(b"header")
        assert status == 500
        assert "c" not in headers


def test_errors_have_their_status_and_tell_no_insides_but_to_the_log(caplog):
    def fails(buffer: Buffer):
        """Fails."""
        if buffer.data == b"bad":
            message = "no good"
            raise modelflow.BadRequest(message)
        if buffer.data == b"bug":
            np.frombuffer(buffer.data, np.uint8)[0] = 1  # a ValueError of the unit, not of the data
        message = "broken"
        raise RuntimeError(message)

    with Service(fails) as service:
        status, body, _ = service.ask(b"bad")
        assert status == 400
        assert json.loads(body)["error"] == {
            "node": "work",
            "unit": "work",
            "type": "BadRequest",
            "message": "no good",
        }
        assert service.ask(b"bug")[0] == 500
        status, body, _ = service.ask(b"other")
        told = json.loads(body)["error"]
        assert status == 500
        assert (told.keys(), told["type"]) == ({"type", "message", "id"}, "Internal Server Error")
        assert "broken" not in told["message"]  # nor any other internal detail
    logged = [r for r in caplog.records if told["id"] in r.getMessage()]
    assert "RuntimeError: broken" in logged[0].getMessage()


def test_why_data_was_refused_goes_to_the_log_alone_where_so_asked(caplog):
    def fails(buffer: Buffer):
        """Fails."""
        message = f"no good: {buffer.data!r}"
        raise modelflow.BadRequest(message)

    with Service(fails, reply_options="expose_errors=false") as service:
        status, body, _ = service.ask(b"secret")
    told = json.loads(body)["error"]
    assert (status, told.keys(), told["type"]) == (400, {"type", "message", "id"}, "Bad Request")
    assert b"secret" not in body
    logged = [r.getMessage() for r in caplog.records if told["id"] in r.getMessage()]
    assert "no good: b'secret'" in logged[0]


def test_data_that_a_built_in_unit_refuses_is_the_clients_fault():
    with Service("flowunit=image_decoder") as service:
        status, body, _ = service.ask(b"no picture")
    told = json.loads(body)["error"]
    assert (status, told["node"], told["type"]) == (400, "work", "ValueError")


def test_a_method_that_is_not_meant_does_not_run_the_graph():
    with Service(echo, ', methods="POST,PUT"') as service:
        assert service.ask(b"a")[:2] == (200, b"a")
        assert service.ask(b"b", method="PUT")[:2] == (200, b"b")
        status, body, headers = service.ask(method="DELETE")
        assert (status, headers["allow"]) == (405, "POST, PUT")
        assert json.loads(body)["error"]["message"] == "got the method DELETE; expected POST, PUT"
        assert service.ask(b"c")[0] == 200
    with pytest.raises(GraphError, match=r"got 'post'; expected any of .*; did you mean 'POST'"):
        Service(echo, ', methods="post"')


class Gate:
    """A unit that waits for the test before its work."""

    def __init__(self):
        self.begun = threading.Semaphore(0)
        self.opened = threading.Event()
        self.seen = []

    def __call__(self, buffer):
        self.seen.append(buffer.data)
        self.begun.release()
        assert self.opened.wait(30)
        return buffer.data


def gated():
    gate = Gate()

    def work(buffer: Buffer):
        """Waits."""
        return gate(buffer)

    return gate, work


def ask_all(service, count):
    found = []

    def ask(number):
        try:
            found.append(service.ask(str(number).encode())[0])
        except ConnectionError:  # the request came when the server no longer listened
            found.append("too late")

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    return threads, found


def until_answered(service, body):
    """Asks until the answer is in time: on a busy machine, a short limit rejects good requests."""
    while (answer := service.ask(body))[0] in (408, 504):
        pass
    assert answer[0] == 200
    return answer[1]


def test_too_many_requests_are_refused_at_once():
    gate, work = gated()
    with Service(work, ", max_requests=3") as service:
        threads, found = ask_all(service, 3)
        for _ in range(3):
            assert gate.begun.acquire(timeout=30)
        assert service.ask()[0] == 503
        gate.opened.set()
        for thread in threads:
            thread.join()
        assert found == [200] * 3
        assert service.ask()[0] == 200


def test_what_takes_too_long_is_given_up_and_not_worked_on():
    gate, work = gated()
    with Service(work, ", time_out_ms=100", work_options="threads=1,batch_size=1") as service:
        threads, found = ask_all(service, 3)
        for thread in threads:
            thread.join()
        assert found == [504] * 3
        gate.opened.set()
        until_answered(service, b"next")
    assert sum(body != b"next" for body in gate.seen) <= 1  # the request that had begun


def test_a_body_that_is_too_long_is_refused():
    with Service(echo, ", max_body_bytes=10") as service:
        assert service.ask(b"x" * 11)[0] == 413
        assert service.ask(b"x" * 10)[0] == 200


def test_a_client_that_does_not_send_its_body_is_given_up():
    with Service(echo, ", time_out_ms=100") as service:
        with socket.create_connection(("127.0.0.1", service.port)) as client:
            client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf")
            assert client.recv(100).startswith(b"HTTP/1.1 408")
        assert until_answered(service, b"whole") == b"whole"


def test_a_stop_answers_what_is_under_way_and_leaves_nothing():
    gate, work = gated()
    service = Service(work)
    with service:
        threads, found = ask_all(service, 4)
        for _ in range(4):
            assert gate.begun.acquire(timeout=30)
        stopping = threading.Thread(target=service.flow.stop)
        stopping.start()
        gate.opened.set()
        stopping.join()
        for thread in threads:
            thread.join()
    assert found == [200] * 4
    with pytest.raises(ConnectionRefusedError):
        service.ask()
    with socket.create_server(("127.0.0.1", service.port)):
        pass  # the port is free again


def test_a_stop_without_draining_answers_that_nobody_will():
    gate, work = gated()
    service = Service(work, work_options="threads=1")
    with service:
        threads, found = ask_all(service, 3)
        assert gate.begun.acquire(timeout=30)
        stopping = threading.Thread(target=lambda: service.flow.stop(drain=False))
        stopping.start()
        for thread in threads:  # clients do not have to wait for the unit, which still works
            thread.join()
        gate.opened.set()
        stopping.join()
    assert set(found) - {"too late"}, "nobody was answered"
    assert set(found) <= {500, 503, "too late"}


def test_a_graph_that_gives_no_answer_says_so_at_once():
    @modelflow.flowunit(kind="condition", outputs=("kept", "dropped"))
    def work(buffer: Buffer):
        """Drops every request."""
        return "dropped"

    port = free_port()
    endpoint = f"http://127.0.0.1:{port}"
    text = f"""digraph {{
        receive [flowunit=httpserver_sync_receive, endpoint="{endpoint}", time_out_ms=60000]
        work [flowunit=work]
        reply [flowunit=httpserver_sync_reply]
        receive -> work
        work:kept -> reply
    }}"""
    with modelflow.Flow(text, units=[work]):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("POST", "/", b"x")
        response = connection.getresponse()
        assert response.status == 500
        assert b"without an answer" in response.read()
        connection.close()


def test_two_nodes_share_a_port():
    port = free_port()
    text = f"""digraph {{
        a [flowunit=httpserver_sync_receive, endpoint="http://127.0.0.1:{port}/a"]
        b [flowunit=httpserver_sync_receive, endpoint="http://127.0.0.1:{port}/a/b"]
        one [flowunit=one] two [flowunit=two]
        reply_a [flowunit=httpserver_sync_reply] reply_b [flowunit=httpserver_sync_reply]
        a -> one -> reply_a  b -> two -> reply_b
    }}"""

    @modelflow.flowunit
    def one(data):
        """Returns the text "one"."""
        return "one"

    @modelflow.flowunit
    def two(data):
        """Returns the text "two"."""
        return "two"

    with modelflow.Flow(text, units=[one, two]):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        for path, expected in (
            ("/a", b"one"),
            ("/a/b", b"two"),
            ("/a/b/c", b"two"),
            ("/a/x", b"one"),
        ):
            connection.request("GET", path)
            assert connection.getresponse().read() == expected
        connection.close()
    twice = text.replace("/a/b", "/a")
    with pytest.raises(FlowFailed) as raised, modelflow.Flow(twice, units=[one, two]):
        pass
    assert "another node of this process listens there" in str(raised.value.exceptions[0])


def test_asynchronous_requests_are_accepted_at_once_and_worked_on():
    gate, seen = threading.Event(), []
    port = free_port()

    @modelflow.flowunit(outputs=())
    def keep(buffer: Buffer):
        """Records the request after the gate opens, and sends no answer."""
        assert gate.wait(30)
        seen.append(buffer.data)

    text = f"""digraph {{
        receive [flowunit=httpserver_async, endpoint="http://127.0.0.1:{port}"]
        keep [flowunit=keep, batch_size=1]
        receive -> keep
    }}"""
    with modelflow.Flow(text, units=[keep]):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        for number in range(5):
            connection.request("POST", "/", str(number))
            response = connection.getresponse()
            assert (response.status, response.read()) == (202, b"")
        connection.close()
        gate.set()
    assert sorted(seen) == [b"0", b"1", b"2", b"3", b"4"]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
    ]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    command += ["-keyout", str(key), "-out", str(cert)]
    programs.run(command, check=True)
    return cert, key


def test_tls(certificate):
    cert, key = certificate
    with Service(echo, f', cert="{cert}", key="{key}"', scheme="https") as service:
        context = ssl.create_default_context(cafile=str(cert))
        connection = http.client.HTTPSConnection(
            "127.0.0.1", service.port, timeout=30, context=context
        )
        connection.request("POST", "/", b"secret")
        assert connection.getresponse().read() == b"secret"
        connection.close()


@pytest.mark.parametrize(
    ("endpoint", "options", "what"),
    [
        ("https://127.0.0.1:0", "", "https needs cert and key"),
        ("http://127.0.0.1:0", ', cert="x.pem"', "got a cert for http"),
        ("https://127.0.0.1:0", ', cert="/no.pem", key="/no.pem"', "cannot be read"),
        ("http://192.0.2.1:8080", "", "cannot listen there"),
    ],
)
def test_a_server_that_cannot_start_says_why(endpoint, options, what):
    text = GRAPH.format(
        unit="httpserver_sync_receive", endpoint=endpoint, options=options, work="flowunit=work"
    )
    with (
        pytest.raises(FlowFailed) as raised,
        modelflow.Flow(text, units=[modelflow.flowunit(name="work")(echo)]),
    ):
        pass
    assert what in str(raised.value.exceptions[0])


def test_a_port_in_use_says_so():
    with socket.create_server(("127.0.0.1", 0)) as server:
        endpoint = f"http://127.0.0.1:{server.getsockname()[1]}"
        unit = httpserver_sync_receive.SPEC.create("cpu")
        with pytest.raises(OSError, match=r"cannot listen there: Address already in use"):
            unit.open(httpserver_sync_receive.SPEC.configure({"endpoint": endpoint}))


@pytest.mark.parametrize(
    ("endpoint", "what"),
    [
        ("127.0.0.1:80", r"expected http://HOST:PORT/PATH"),
        ("htp://127.0.0.1", r"scheme is 'htp'; did you mean 'http'"),
        ("http://127.0.0.1:99999", r"Port out of range"),
        ("http://", r"expected http://HOST:PORT/PATH"),
    ],
)
def test_an_endpoint_that_is_none_says_what_was_expected(endpoint, what):
    with pytest.raises(ConfigError, match=what):
        httpserver_sync_receive.SPEC.configure({"endpoint": endpoint})


def test_a_reply_without_a_request_is_an_error():
    (error,) = run_unit(httpserver_sync_reply.SPEC, {"in_reply_info": [b"x"]})["errors"]
    assert "the session has no request to answer" in error.get_error_msg()


def test_the_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "httptools", None)
    unit = httpserver_sync_receive.SPEC.create("cpu")
    with pytest.raises(MissingDependencyError, match=r"httptools.*modelflow-graph\[serve\]"):
        unit.open(httpserver_sync_receive.SPEC.configure({"endpoint": "http://127.0.0.1:0"}))
