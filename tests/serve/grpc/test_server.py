"""Tests of calls: their limits, their deadlines, and their ends."""

import socket
import sys
import threading

import grpc
import numpy as np
import pytest

import modelflow
from modelflow.errors import FlowFailed, MissingDependencyError
from modelflow.serve.grpc.choice import server_of
from modelflow.serve.grpc.grpcio_server import GrpcioServer
from modelflow.serve.options import GrpcKind
from modelflow.serve.server import ServeOptions, Server
from modelflow.wire.proto import HEALTH
from tests.serve.clients import ask, mean
from tests.serve.grpc.stub import (
    OIP,
    PREDICTION,
    SECONDS,
    Stub,
    grpc_served,
    infer,
    predict,
    refused,
    stub,
)
from tests.serve.test_server import GRAPH, Gate

pytestmark = pytest.mark.usefixtures("grpc_server")


@pytest.fixture(scope="module")
def server(grpc_server):
    with grpc_served() as running:
        yield running


def row(*values):
    return np.float32([values])


def until_under_way(server, count):
    while server.model("m").admission.under_way != count:
        pass


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def failing(instead=None):
    """Returns a unit that does not open, or that calls ``instead``."""

    class Opens(modelflow.FlowUnit):
        SPEC = modelflow.FlowUnitSpec(
            "mean",
            {"cpu": lambda: Opens()},
            inputs=(modelflow.Port("in"),),
            outputs=(modelflow.Port("out"),),
        )

        def open(self, config):
            if instead is None:
                raise ValueError("no model")
            instead()

    return Opens


def grpc_server_of(unit, port):
    flow = modelflow.Flow(GRAPH.replace("batch_size=8", "threads=1"), units=[unit])
    return Server({"m": flow}, ServeOptions(http_port=0, grpc_port=port))


def test_a_message_that_is_too_long_is_refused_also_compressed():
    with grpc_served(max_body=10_000) as server, stub(server) as client:
        long = infer(np.zeros((1, 1 << 20), np.float32))
        method = client.method(OIP, "ModelInfer")
        for compression in (grpc.Compression.NoCompression, grpc.Compression.Gzip):
            with refused("RESOURCE_EXHAUSTED", "larger than max"):
                method(long, compression=compression, timeout=SECONDS)
        assert method(infer(), compression=grpc.Compression.Gzip, timeout=SECONDS).outputs


def test_messages_beyond_four_megabytes_come_and_go():
    @modelflow.flowunit(name="mean")
    def same(row):
        return row

    with grpc_served(same) as server:
        options = [("grpc.max_receive_message_length", -1)]
        with grpc.insecure_channel(server.grpc_address, options) as channel:
            array = np.ones((1, 3_000_000), np.float32)
            answer = Stub(channel).oip("ModelInfer", infer(array))
    assert len(answer.raw_output_contents[0]) == array.nbytes


def test_messages_have_no_more_room_than_there_is_for_all_of_them():
    gate = Gate()
    size = infer(row(1.0)).ByteSize()
    with grpc_served(gate.unit, gate.NODE, max_bodies=size) as server, stub(server) as client:
        first = client.method(OIP, "ModelInfer").future(infer(row(1.0)), timeout=SECONDS)
        assert gate.entered.acquire(timeout=SECONDS)
        with refused("RESOURCE_EXHAUSTED", "no room") as found:
            client.oip("ModelInfer", infer(row(2.0)))
        assert ("retry-after", "1") in found[0].trailing_metadata()
        gate.go.set()
        assert first.result().outputs
        assert client.oip("ModelInfer", infer(row(3.0))).outputs


def test_more_requests_than_there_may_be_are_refused_with_a_time_to_come_again():
    gate = Gate()
    with grpc_served(gate.unit, gate.NODE, max_requests=1) as server, stub(server) as client:
        first = client.method(PREDICTION, "Predict").future(predict(row(1.0)), timeout=SECONDS)
        assert gate.entered.acquire(timeout=SECONDS)
        with refused("UNAVAILABLE", "1 requests under way") as found:
            client.oip("ModelInfer", infer(row(2.0)))
        assert ("retry-after", "1") in found[0].trailing_metadata()
        gate.go.set()
        assert first.result().outputs


def test_more_calls_than_there_may_be_are_refused():
    watched = HEALTH["grpc.health.v1.HealthCheckRequest"]()
    with grpc_served(max_calls=1) as server, stub(server) as client:
        first = client.method("grpc.health.v1.Health", "Watch")(watched, timeout=SECONDS)
        next(first)
        with refused("RESOURCE_EXHAUSTED"):
            client.oip("ServerLive")
        first.cancel()


@pytest.mark.parametrize("name", ["ModelInfer", "ModelStreamInfer"])
def test_a_client_that_cancels_is_not_worked_for(name):
    gate = Gate()
    with grpc_served(gate.unit, gate.NODE) as server, stub(server) as client:
        first = client.method(OIP, "ModelInfer").future(infer(row(1.0)), timeout=SECONDS)
        assert gate.entered.acquire(timeout=SECONDS)
        method = client.method(OIP, name)
        if name == "ModelInfer":
            second = method.future(infer(row(2.0)), timeout=SECONDS)
        else:
            second = method(iter([infer(row(2.0)), infer(row(3.0))]), timeout=SECONDS)
        until_under_way(server, 2 if name == "ModelInfer" else 3)
        second.cancel()
        until_under_way(server, 1)
        gate.go.set()
        assert first.result().outputs
    assert gate.seen == [1.0]


@pytest.mark.parametrize("is_clients", [True, False])
def test_a_request_whose_time_has_passed_is_not_worked_on(is_clients):
    gate = Gate()
    late = infer(row(2.0))
    if not is_clients:
        late.parameters["timeout"].int64_param = 1
    with grpc_served(gate.unit, gate.NODE) as server, stub(server) as client:
        first = client.method(OIP, "ModelInfer").future(infer(row(1.0)), timeout=SECONDS)
        assert gate.entered.acquire(timeout=SECONDS)
        method = client.method(OIP, "ModelInfer")
        second = method.future(late, timeout=0.1 if is_clients else SECONDS)
        assert second.exception().code() is grpc.StatusCode.DEADLINE_EXCEEDED
        until_under_way(server, 1)  # the server's clock began a little later
        gate.go.set()
        assert first.result().outputs
        until_under_way(server, 0)
    assert gate.seen == [1.0]


def test_a_text_that_is_long_reaches_the_client_cut(server):
    with stub(server) as client, refused("NOT_FOUND", "Latest(éé") as found:
        client.call(PREDICTION, "Predict", predict(name="é" * 20_000))
    assert len(found[0].details().encode()) <= 2000


def test_bytes_that_are_no_message_are_said(server):
    with stub(server) as client, refused("INVALID_ARGUMENT", "no inference.ModelInferRequest"):
        client.channel.unary_unary(f"/{OIP}/ModelInfer")(b"\xff\xff", timeout=SECONDS)


def test_a_stop_answers_what_is_under_way_and_ends_streams_that_wait():
    gate = Gate()
    server = grpc_served(gate.unit, gate.NODE).start()
    with stub(server) as client:
        first = client.method(OIP, "ModelInfer").future(infer(row(1.0)), timeout=SECONDS)
        assert gate.entered.acquire(timeout=SECONDS)
        asked, ended = threading.Event(), threading.Event()

        def requests():
            yield infer(row(2.0))
            asked.set()
            ended.wait()

        answers = client.method(OIP, "ModelStreamInfer")(requests(), timeout=SECONDS)
        until_under_way(server, 2)
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        gate.go.set()
        assert first.result().outputs
        assert not next(answers).error_message
        with refused("UNAVAILABLE", "the server is being stopped"):
            next(answers)
        ended.set()
        stopping.join()
        with refused("UNAVAILABLE"):
            client.oip("ServerLive")


def test_both_protocols_are_on_one_thread():
    before = set(threading.enumerate())
    with grpc_served() as server, stub(server) as client:
        assert client.oip("ServerLive").live
        assert ask(server, "/v1/models/m")[0] == 200
        names = [one.name for one in set(threading.enumerate()) - before]
        assert sum(name.startswith("modelflow/http") for name in names) == 1
        assert not [name for name in names if "grpc" in name]


def test_an_address_in_use_is_an_error_that_names_it_before_anything_is_loaded():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"gRPC at 127.0.0.1:{port}: cannot listen there"):
            grpc_server_of(failing(), port).start()


def test_two_servers_do_not_share_an_address():
    with grpc_served() as server:
        port = int(server.grpc_address.split(":")[1])
        with pytest.raises(OSError, match=f"gRPC at 127.0.0.1:{port}: cannot listen there"):
            grpc_server_of(mean, port).start()


def test_nobody_else_can_listen_there_while_models_are_loaded():
    def intrude():
        socket.create_server(("127.0.0.1", port)).close()

    port = free_port()
    with pytest.raises(FlowFailed) as failed:
        grpc_server_of(failing(intrude), port).start()
    assert "Address already in use" in str(failed.value.exceptions[0])


def test_a_flow_that_does_not_start_gives_the_address_back():
    port = free_port()
    with pytest.raises(FlowFailed):
        grpc_server_of(failing(), port).start()
    with socket.create_server(("127.0.0.1", port)):
        pass


@pytest.mark.parametrize(
    ("kind", "packages", "missing"),
    [
        (GrpcKind.GRPCIO, ("grpc", "grpc.aio"), r"grpcio.*modelflow-graph\[serve\]"),
        (GrpcKind.NATIVE, ("zttp",), r"zttp.*modelflow-graph\[serve-fast\]"),
    ],
)
def test_without_its_package_the_error_names_the_extra_and_http_serves(
    monkeypatch, kind, packages, missing
):
    for name in [name for name in sys.modules if name.startswith("modelflow.serve.grpc.")]:
        monkeypatch.delitem(sys.modules, name)
    for package in packages:
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingDependencyError, match=missing):
        grpc_served(grpc_server=kind).start()
    flow = modelflow.Flow(GRAPH, units=[mean])
    with Server({"m": flow}, ServeOptions(http_port=0)) as server:
        assert server.grpc_address == ""
        assert ask(server, "/v1/models/m")[0] == 200


def test_grpcio_is_the_default():
    assert server_of(GrpcKind.AUTO) is server_of(GrpcKind.GRPCIO) is GrpcioServer
