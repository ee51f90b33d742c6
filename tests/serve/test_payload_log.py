"""The payload log, read with the SDK of CloudEvents."""

import base64
import contextlib
import gzip
import http.server
import json
import socket
import sys
import threading
from collections import Counter

import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_structured_event

from modelflow.errors import ConfigError
from modelflow.serve.access.payload_log import (
    PROTOBUF,
    REQUEST,
    RESPONSE,
    Event,
    Payload,
    PayloadLog,
    RequestIdentity,
)
from modelflow.serve.access.shared_counts import Counted, SharedCounts
from modelflow.wire.proto import OPEN_INFERENCE
from tests import programs
from tests.prometheus import samples_of
from tests.serve.clients import ask, of_rest, send
from tests.serve.grpc.stub import OIP, grpc_served, infer, stub

PREDICT = "/v1/models/m:predict"
BODY = {"instances": [[1.0, 3.0]]}


def read(line):
    """Returns the event of a line, read by the SDK."""
    headers = {"content-type": "application/cloudevents+json"}
    return from_structured_event(HTTPMessage(headers, line))


def events(path):
    return [read(line) for line in path.read_bytes().splitlines()]


def attributes(event, *names):
    found = event.get_attributes()
    return tuple(found.get(name) for name in names)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "events"


@of_rest
def test_a_request_and_its_reply_are_events_with_one_id(grpc_server, path):
    with grpc_served(payload_log=str(path)) as server:
        headers = {"x-request-id": "r1", "x-api-key": "s3cret"}
        body = json.dumps(BODY, indent=1)
        assert send(server, "POST", f"{PREDICT}?key=s3cret", body, headers)[0] == 200
        assert ask(server, "/v1/models/m")[0] == 200  # no inference
    request, reply = events(path)
    assert [one.get_type() for one in (request, reply)] == [REQUEST, RESPONSE]
    assert {one.get_id() for one in (request, reply)} == {"r1"}
    assert {one.get_subject() for one in (request, reply)} == {"models/m/versions/1"}
    assert (request.get_data(), reply.get_data()) == (BODY, {"predictions": [2.0]})
    assert attributes(request, "operation", "status") == (PREDICT, None)
    assert attributes(reply, "status", "modelversion") == ("200", "1")
    assert b"s3cret" not in path.read_bytes()


@of_rest
def test_a_refused_request_is_logged_with_its_status(grpc_server, path):
    with grpc_served(payload_log=str(path)) as server:
        assert send(server, "POST", "/v1/models/other:predict", b'{"instances": NaN')[0] == 404
        assert send(server, "POST", PREDICT, b'{"instances": [[-1.0]]}')[0] == 500
    first, first_reply, last, last_reply = events(path)
    assert first.get_data() == b'{"instances": NaN'
    assert (first.get_subject(), last.get_subject()) == (None, "models/m/versions/1")
    assert attributes(first_reply, "status") == ("404",)
    assert attributes(last_reply, "status") == ("500",)


@of_rest
def test_compressed_and_binary_bodies_are_logged(grpc_server, path):
    with grpc_served(payload_log=str(path)) as server:
        body = gzip.compress(json.dumps(BODY).encode())
        send(server, "POST", PREDICT, body, {"content-encoding": "gzip"})
        raw = {"content-type": "application/octet-stream", "inference-header-content-length": "0"}
        send(server, "POST", "/v2/models/m/infer", b"\0\0\x80?", raw)
    packed, _, binary, _ = events(path)
    assert packed.get_data() == BODY
    assert binary.get_data() == b"\0\0\x80?"
    assert attributes(binary, "datacontenttype") == ("application/octet-stream",)


@of_rest
def test_a_long_body_is_cut_and_marked(grpc_server, path):
    with grpc_served(payload_log=str(path), payload_bytes=10) as server:
        text = json.dumps(BODY).encode()
        send(server, "POST", PREDICT, text)
    request, reply = events(path)
    assert request.get_data() == text[:10]
    assert attributes(request, "payloadcut", "payloadsize") == (True, len(text))
    assert attributes(reply, "payloadcut", "payloadsize") == (True, len(b'{"predictions":[2.0]}'))


@of_rest
def test_a_streamed_reply_has_its_size_alone(grpc_server, path):
    with grpc_served(payload_log=str(path)) as server:
        sent = send(server, "POST", "/v2/models/m/generate_stream", b'{"input": [1.0]}')[2]
    _, reply = events(path)
    assert attributes(reply, "payloadcut", "payloadsize", "status") == (True, len(sent), "200")


def test_a_call_is_logged_as_protobuf(grpc_server, path):
    with grpc_served(payload_log=str(path)) as server, stub(server) as client:
        client.oip("ModelInfer", infer(id="one"))
        client.oip("ServerMetadata")
    request, reply = events(path)
    message = OPEN_INFERENCE["inference.ModelInferRequest"].FromString(request.get_data())
    assert (message.id, message.model_name) == ("one", "m")
    answer = OPEN_INFERENCE["inference.ModelInferResponse"].FromString(reply.get_data())
    assert answer.id == "one"
    assert attributes(request, "datacontenttype") == (PROTOBUF,)
    assert attributes(reply, "status") == ("OK",)
    assert attributes(request, "operation") == (f"/{OIP}/ModelInfer",)


def test_messages_of_a_stream_are_numbered(grpc_server, path):
    with grpc_served(payload_log=str(path)) as server, stub(server) as client:
        call = client.method(OIP, "ModelStreamInfer")
        assert len(list(call(iter([infer(), infer()]), timeout=60))) == 2
    found = events(path)
    numbers = Counter((one.get_type(), *attributes(one, "sequence", "status")) for one in found)
    numbered = [(kind, number, None) for kind in (REQUEST, RESPONSE) for number in ("1", "2")]
    assert numbers == Counter([*numbered, (RESPONSE, None, "OK")])
    assert len({one.get_id() for one in found}) == 1
    assert {one.get_subject() for one in found} == {"models/m/versions/1"}


@of_rest
def test_a_share_of_the_requests_is_logged(grpc_server, path):
    with grpc_served(payload_log=str(path), log_payloads=20.0) as server:
        for _ in range(300):
            ask(server, PREDICT, BODY)
    assert 20 < len(events(path)) / 2 < 120


class Receiver(http.server.BaseHTTPRequestHandler):
    """A receiver of events, which answers with ``server.status``."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.got.append((self.path, self.headers["content-type"], body))
        self.send_response(self.server.status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        """Writes nothing."""


@contextlib.contextmanager
def receiving(status=202):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        server.got, server.status, server.daemon_threads = [], status, True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server, f"http://127.0.0.1:{server.server_address[1]}/in?a=b"
        finally:
            server.shutdown()
            thread.join()


@of_rest
def test_events_are_posted_to_a_url(grpc_server):
    with receiving() as (receiver, url):
        with grpc_served(payload_log=url) as server:
            ask(server, PREDICT, BODY)
        found = receiver.got
    assert [(path, kind) for path, kind, _ in found] == [
        ("/in?a=b", "application/cloudevents+json; charset=utf-8")
    ] * 2
    assert [read(body).get_type() for *_, body in found] == [REQUEST, RESPONSE]


def event(data=b"{}"):
    payload = Payload(data, len(data), "", "")
    return Event(REQUEST, 0.0, "/x", RequestIdentity("id", "m", 1), None, 0, payload)


@pytest.mark.parametrize("kind", ["refusing", "closed", "full"])
def test_a_destination_that_fails_loses_the_log_alone_and_is_named_once(kind, caplog):
    with receiving(status=500) as (_, url):
        pass
    counts = SharedCounts()
    with receiving(status=500) as (_, refusing):
        place = {"refusing": refusing, "closed": url, "full": "/dev/full"}[kind]
        log = PayloadLog(place, 100.0, 100, counts)
        for _ in range(20):
            log.write(event())
        log.close()
    assert caplog.text.count("cannot be written") == 1
    assert "20 lines were lost" in caplog.text
    assert (counts.read(Counted.LOST), counts.read(Counted.LOGGED)) == (20, 0)


def test_a_receiver_that_never_answers_holds_nobody_up(caplog):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        counts = SharedCounts()
        log = PayloadLog(f"http://127.0.0.1:{silent.getsockname()[1]}/", 100.0, 1 << 20, counts)
        for _ in range(100):  # more than fits into the queue
            log.write(event(b"x" * (1 << 20)))
        assert counts.read(Counted.LOST) >= 30
        log.close()
        assert counts.read(Counted.LOST) == 100
    assert "100 lines were lost" in caplog.text


def test_a_line_behind_a_cut_line_is_whole(path):
    log = PayloadLog(str(path), 100.0, 100)

    class Full:
        """A file on a disk that is full after some bytes, and then has room."""

        def __init__(self, file, room):
            self.file, self.room = file, room

        def write(self, data):
            if self.room is None:
                return self.file.write(data)
            if not self.room:
                self.room = None
                raise OSError(28, "No space left on device")
            data, self.room = data[: self.room], self.room - len(data[: self.room])
            return self.file.write(data)

        def flush(self):
            """Does nothing."""

        def close(self):
            self.file.close()

    log._file = Full(log._file, 10)  # type: ignore[assignment]
    log._put(b'{"n": "one"}\n')
    log._put(b'{"n": "two"}\n')
    log.close()
    assert path.read_bytes().splitlines()[1] == b'{"n": "two"}'


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http:///x", "got a URL without a host; expected http://HOST/PATH"),
        ("http://h:x/", "got a URL with an invalid host or port"),
        ("http://u:s3cret[@h/", "got a URL with an invalid host or port"),
        ("https://u:s3cret@h/", "got a URL with a user name"),
    ],
)
def test_a_url_that_is_none_is_an_error_at_the_start(url, message):
    with pytest.raises(ConfigError, match=message) as error:
        PayloadLog(url, 100.0, 1)
    assert "s3cret" not in str(error.value)


@of_rest
def test_the_metrics_count_events(grpc_server, path):
    with grpc_served(payload_log=str(path)) as server:
        ask(server, PREDICT, BODY)
        log = server._access._payloads
        server._access.close()
        found = samples_of(send(server, "GET", "/metrics")[2].decode())
        assert log.samples()
    written = found["modelflow_payload_events_total", ("result", "written")]
    assert (written, found["modelflow_payload_events_total", ("result", "lost")]) == (2, 0)


def test_base64_of_a_body_is_the_body(path):
    log = PayloadLog(str(path), 100.0, 100)
    log.write(event(b"\xff\n"))
    log.close()
    assert json.loads(path.read_text())["data_base64"] == base64.b64encode(b"\xff\n").decode()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--log-payloads", "5%"), "--log-payloads 5%: there is no log for the payloads"),
        (("--payload-log", "e", "--log-payloads", "0%"), "got '0%'; expected more than 0%"),
        (("--payload-log", "e", "--log-payloads", "x"), "got 'x'; expected more than 0%"),
    ],
)
def test_a_wrong_share_is_a_usage_error(arguments, message):
    command = [
        sys.executable,
        "-m",
        "modelflow",
        "serve",
        "detect_classify",
        "--http",
        "0",
        "--grpc",
        "off",
        *arguments,
    ]
    done = programs.run(command)
    assert done.returncode == 2
    assert message in done.stderr
