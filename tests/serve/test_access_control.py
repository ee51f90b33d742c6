"""Tests of a server with certificates and keys, and of real clients."""

import contextlib
import importlib
import json
import logging
import socket
import ssl
import subprocess
import threading

import grpc
import numpy as np
import pytest
import requests

from modelflow.errors import ConfigError
from modelflow.http.options import ConnectionLimits
from tests.http.clients import is_ended
from tests.serve.certificates import Authority
from tests.serve.clients import ask, send, served
from tests.serve.grpc.stub import OIP, PREDICTION, PROTOCOLS, Stub, grpc_served, infer, refused

MODELS = "tensorflow.serving.ModelService"
PREDICT = "/v1/models/m:predict"
BODY = {"instances": [[1.0, 3.0]]}
ANSWER = {"predictions": [2.0]}
SECONDS = 60


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def server(grpc_server, authority):
    with grpc_served(tls=authority.options()) as running:
        yield running


@pytest.fixture(scope="module")
def mutual(grpc_server, authority):
    with grpc_served(tls=authority.options(is_mutual=True)) as running:
        yield running


def credentials(authority, pair=None):
    return grpc.ssl_channel_credentials(
        authority.path.read_bytes(),
        pair and pair.key.read_bytes(),
        pair and pair.cert.read_bytes(),
    )


def port_of(server):
    host, port = server.address.removeprefix("https://").split(":")
    return host, int(port)


# -- TLS ------------------------------------------------------------------------------------------


def test_requests_asks_over_tls(server, authority):
    assert server.address.startswith("https://")
    answer = requests.post(
        server.address + PREDICT, json=BODY, verify=authority.path, timeout=SECONDS
    )
    assert answer.json() == ANSWER


def test_curl_asks_over_tls(server, authority):
    command = ["curl", "-sS", "--cacert", authority.path, "-d", '{"instances": [[1.0, 3.0]]}']
    done = subprocess.run(
        [*command, server.address + PREDICT], capture_output=True, timeout=SECONDS, check=True
    )
    assert done.stdout == b'{"predictions":[2.0]}'


def test_triton_client_asks_over_tls(server, authority):
    triton = importlib.import_module("tritonclient.http")
    client = triton.InferenceServerClient(
        server.address.removeprefix("https://"),
        ssl=True,
        ssl_context_factory=lambda: authority.client(),
    )
    tensor = triton.InferInput("input", [1, 2], "FP32")
    tensor.set_data_from_numpy(np.float32([[1, 3]]))
    try:
        assert client.infer("m", [tensor]).as_numpy("output").tolist() == [2.0]
    finally:
        client.close()


def test_grpc_asks_over_tls(server, authority):
    with grpc.secure_channel(server.grpc_address, credentials(authority)) as channel:
        answer = Stub(channel).oip("ModelInfer", infer())
    assert len(answer.raw_output_contents) == 1


def test_a_body_of_many_records_comes_and_goes_whole(server, authority):
    body = {"instances": [[float(number)] * 100 for number in range(3000)]}
    answer = requests.post(
        server.address + PREDICT, json=body, verify=authority.path, timeout=SECONDS
    )
    assert answer.json()["predictions"] == [row[0] for row in body["instances"]]


def test_a_client_shows_its_certificate(mutual, authority):
    pair = authority.issue("client")
    answer = requests.post(
        mutual.address + PREDICT,
        json=BODY,
        verify=authority.path,
        cert=(pair.cert, pair.key),
        timeout=SECONDS,
    )
    assert answer.json() == ANSWER
    with grpc.secure_channel(mutual.grpc_address, credentials(authority, pair)) as channel:
        assert Stub(channel).oip("ServerLive").live


def test_a_client_without_a_certificate_is_turned_away(mutual, authority, tmp_path):
    for pair in (None, Authority(tmp_path / "other").issue()):
        shown = pair and (pair.cert, pair.key)
        with pytest.raises((requests.exceptions.SSLError, requests.exceptions.ConnectionError)):
            requests.post(
                mutual.address + PREDICT,
                json=BODY,
                verify=authority.path,
                cert=shown,
                timeout=SECONDS,
            )
        with (
            grpc.secure_channel(mutual.grpc_address, credentials(authority, pair)) as channel,
            refused("UNAVAILABLE"),
        ):
            Stub(channel).oip("ServerLive")


@pytest.mark.parametrize("sent", [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01", b""])
def test_who_speaks_no_tls_is_left_and_others_are_answered(server, authority, sent, caplog):
    with socket.create_connection(port_of(server), timeout=SECONDS) as client:
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionResetError):
            while client.recv(1000):
                pass
    assert requests.get(server.address + "/livez", verify=authority.path, timeout=SECONDS).ok
    assert not caplog.records


def test_tls_on_a_plain_port_is_answered_as_no_request(authority):
    with (
        served() as server,
        socket.create_connection(
            ("127.0.0.1", int(server.address.rpartition(":")[2])), timeout=SECONDS
        ) as client,
        pytest.raises((ssl.SSLError, ConnectionResetError)),
    ):
        authority.client().wrap_socket(client, server_hostname="127.0.0.1")


def test_a_handshake_that_does_not_come_has_an_end(authority):
    limits = ConnectionLimits(header_time_out=0.2)
    with (
        served(tls=authority.options(), connections=limits) as server,
        socket.create_connection(port_of(server), timeout=SECONDS) as silent,
    ):
        found = requests.get(server.address + "/livez", verify=authority.path, timeout=SECONDS)
        assert found.ok  # other clients do not wait
        assert is_ended(silent)


def test_a_stop_ends_connections_over_tls(authority):
    server = served(tls=authority.options(), drain_timeout=1.0).start()
    try:
        with (
            socket.create_connection(port_of(server), timeout=SECONDS) as plain,
            authority.client().wrap_socket(plain, server_hostname="127.0.0.1") as client,
        ):
            client.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
            assert client.recv(1000).startswith(b"HTTP/1.1 200")
            stopping = threading.Thread(target=server.stop)
            stopping.start()
            while client.recv(1000):
                pass
        stopping.join()
    finally:
        server.stop()


def test_nothing_listens_where_the_certificate_is_not_to_be_used(authority):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    pair = authority.issue("old", days=-1)
    options = authority.options()
    server = served(tls=type(options)(pair.cert, pair.key))
    with pytest.raises(ConfigError, match="certificate has expired"):
        server.start()
    with socket.create_server(("127.0.0.1", port)):
        pass


# -- keys -----------------------------------------------------------------------------------------

KEYS = "# all\nALL-KEY-1\ninfer INFER-KEY\n\nrepository,metrics OPS-KEY\n"


@pytest.fixture(scope="module")
def keyed(grpc_server, tmp_path_factory):
    path = tmp_path_factory.mktemp("keys") / "keys"
    path.write_text(KEYS)
    with grpc_served(key_file=path) as running:
        yield running


def writer(key):
    return {"Authorization": f"Bearer {key}"}


@pytest.mark.parametrize(
    ("path", "document", "keys"),
    [
        (PREDICT, BODY, {"ALL-KEY-1", "INFER-KEY"}),
        ("/v2/models/m", None, {"ALL-KEY-1", "INFER-KEY"}),
        ("/V2", None, {"ALL-KEY-1", "INFER-KEY"}),
        ("/v2/repository/index", {}, {"ALL-KEY-1", "OPS-KEY"}),
        ("/metrics", None, {"ALL-KEY-1", "OPS-KEY"}),
        ("/stats", None, {"ALL-KEY-1", "OPS-KEY"}),
        ("/stats/m", None, {"ALL-KEY-1", "OPS-KEY"}),
        ("/v2/models/m/stats", None, {"ALL-KEY-1", "OPS-KEY"}),
        ("/v2/models/m/versions/1/stats", None, {"ALL-KEY-1", "OPS-KEY"}),
        ("/v2/models/stats", None, {"ALL-KEY-1", "OPS-KEY"}),
        ("/v2/models/m/config", None, {"ALL-KEY-1", "INFER-KEY"}),
        ("/v2/models/m/generate", {"input": [1.0]}, {"ALL-KEY-1", "INFER-KEY"}),
        ("/v2/models/m/generate_stream", {"input": [1.0]}, {"ALL-KEY-1", "INFER-KEY"}),
    ],
)
def test_a_key_opens_its_groups(keyed, path, document, keys):
    method = "GET" if document is None else "POST"
    body = None if document is None else json.dumps(document)
    for key in ("ALL-KEY-1", "INFER-KEY", "OPS-KEY"):
        expected = 200 if key in keys else 403
        for headers in (writer(key), {"x-api-key": key}, {"authorization": f"bEARER  {key} "}):
            assert send(keyed, method, path, body, headers)[0] == expected


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-api-key": ""},
        {"x-api-key": "ALL-KEY-"},
        {"x-api-key": "no", "authorization": "Bearer ALL-KEY-1"},
        {"authorization": "Basic ALL-KEY-1"},
        {"authorization": "ALL-KEY-1"},
        {"x-api-key": "é"},
    ],
)
@pytest.mark.parametrize("path", [PREDICT, "/elsewhere"])
def test_who_has_no_key_is_told_to_bring_one(keyed, headers, path):
    status, found, answered = ask(keyed, path, BODY, headers=headers)
    assert (status, answered["www-authenticate"]) == (401, 'Bearer realm="modelflow"')
    assert "API key" in found["error"]


@pytest.mark.parametrize(
    "path", ["/v1/models/m:classify", "/v1/models/m:regress", "/v2/models/m/generate_stream"]
)
def test_a_key_of_the_wrong_group_is_refused_before_anything_is_read(keyed, path):
    """Tests also stream endpoints: no stream begins."""
    status, found, headers = ask(keyed, path, b"no JSON", headers=writer("OPS-KEY"))
    assert (status, headers["content-type"]) == (403, "application/json")
    assert "for metrics and repository, not for infer" in found["error"]
    assert ask(keyed, path, b"no JSON", headers=writer("INFER-KEY"))[0] == 400


def test_loading_over_rest_needs_a_key_of_the_repository(keyed):
    path = "/v2/repository/models/m/load"
    for key, text in (("INFER-KEY", "not for repository"), ("OPS-KEY", "--allow-repository")):
        status, found, _ = ask(keyed, path, {}, headers=writer(key))
        assert (status, text in found["error"]) == (403, True)


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/v2/health/live", "/v2/health/ready"])
def test_probes_need_no_key(keyed, path):
    assert ask(keyed, path)[0] == 200


def test_calls_over_grpc_need_the_same_keys(keyed):
    with grpc.insecure_channel(keyed.grpc_address) as channel:
        client = Stub(channel)
        assert client.oip("ServerLive").live
        assert client.oip("ServerReady").ready
        assert client.call("grpc.health.v1.Health", "Check").status == 1
        with refused("UNAUTHENTICATED", "API key is needed") as found:
            client.oip("ModelInfer", infer())
        assert ("www-authenticate", 'Bearer realm="modelflow"') in found[0].trailing_metadata()
        method = client.method("inference.GRPCInferenceService", "ModelInfer")
        for metadata in ((("x-api-key", "INFER-KEY"),), (("authorization", "Bearer ALL-KEY-1"),)):
            assert method(infer(), timeout=SECONDS, metadata=metadata).model_name == "m"
        with refused("PERMISSION_DENIED", "for metrics and repository, not for infer"):
            method(infer(), timeout=SECONDS, metadata=(("x-api-key", "OPS-KEY"),))


@pytest.mark.parametrize(
    ("service", "name", "group", "outcome"),
    [
        (OIP, "ModelStatistics", "metrics", "OK"),
        (OIP, "RepositoryIndex", "repository", "OK"),
        (OIP, "RepositoryModelLoad", "repository", "PERMISSION_DENIED"),
        (OIP, "RepositoryModelUnload", "repository", "PERMISSION_DENIED"),
        (MODELS, "HandleReloadConfigRequest", "repository", "INVALID_ARGUMENT"),
        (OIP, "ModelConfig", "infer", "NOT_FOUND"),
        (PREDICTION, "Classify", "infer", "INVALID_ARGUMENT"),
        (PREDICTION, "Regress", "infer", "INVALID_ARGUMENT"),
        (PREDICTION, "MultiInference", "infer", "INVALID_ARGUMENT"),
    ],
)
def test_a_method_is_of_a_group(keyed, service, name, group, outcome):
    right, wrong = ("INFER-KEY", "OPS-KEY") if group == "infer" else ("OPS-KEY", "INFER-KEY")
    with grpc.insecure_channel(keyed.grpc_address) as channel:
        with refused("PERMISSION_DENIED", f"not for {group}"):
            _asked(channel, service, name, wrong)
        if outcome == "OK":
            _asked(channel, service, name, right)
        else:
            with refused(outcome) as found:
                _asked(channel, service, name, right)
            assert "API key" not in found[0].details()


def _asked(channel, service, name, key):
    """Returns the reply to an empty message with a key."""
    protocol = PROTOCOLS[service.split(".")[0]]
    kind = protocol.methods(service)[name].input_type.full_name
    metadata = (("x-api-key", key),)
    return Stub(channel).method(service, name)(protocol[kind](), timeout=SECONDS, metadata=metadata)


def test_a_stream_needs_a_key(keyed):
    with grpc.insecure_channel(keyed.grpc_address) as channel:
        method = Stub(channel).method("inference.GRPCInferenceService", "ModelStreamInfer")
        with refused("UNAUTHENTICATED"):
            next(method(iter([infer()]), timeout=SECONDS))
        with refused("PERMISSION_DENIED", "not for infer"):
            metadata = (("x-api-key", "OPS-KEY"),)
            next(method(iter([infer()]), timeout=SECONDS, metadata=metadata))
        metadata = (("x-api-key", "INFER-KEY"),)
        assert next(method(iter([infer()]), timeout=SECONDS, metadata=metadata)).infer_response


def test_a_refresh_reads_the_keys_again_and_keeps_them_where_that_fails(tmp_path, caplog):
    path = tmp_path / "keys"
    path.write_text("old-key")
    with served(key_file=path) as server:
        path.write_text("new-key")
        server.refresh()
        while ask(server, "/v2", headers=writer("new-key"))[0] != 200:
            pass
        assert ask(server, "/v2", headers=writer("old-key"))[0] == 401
        path.write_text("no-group secret-key")
        server.refresh()
        while "stay" not in caplog.text:
            pass
        assert ask(server, "/v2", headers=writer("new-key"))[0] == 200
    assert "keys:1: got" in caplog.text
    for key in ("old-key", "new-key", "secret-key"):
        assert key not in caplog.text


@pytest.mark.parametrize(
    ("host", "is_tls", "is_warned"),
    [
        ("0.0.0.0", False, True),
        ("0.0.0.0", True, False),
        ("127.0.0.1", False, False),
        ("localhost", False, False),
    ],
)
def test_keys_in_plain_text_on_the_network_are_warned_of(
    authority, tmp_path, caplog, host, is_tls, is_warned
):
    (tmp_path / "keys").write_text("key")
    tls = authority.options() if is_tls else None
    with caplog.at_level(logging.WARNING), served(key_file=tmp_path / "keys", host=host, tls=tls):
        pass
    assert ("cross the network in plain text: 0.0.0.0" in caplog.text) == is_warned


def test_connections_without_a_handshake_count_and_shut_nobody_out(authority):
    limits = ConnectionLimits(connections=3, per_client=3)
    with (
        served(tls=authority.options(), connections=limits) as server,
        contextlib.ExitStack() as stack,
    ):
        silent = [
            stack.enter_context(socket.create_connection(port_of(server), timeout=SECONDS))
            for _ in range(8)
        ]
        found = requests.get(server.address + "/livez", verify=authority.path, timeout=SECONDS)
        assert found.ok
        assert all(is_ended(one) for one in silent[:5])  # the oldest connections are closed first
