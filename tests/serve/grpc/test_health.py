"""gRPC's health protocol."""

import pytest

from modelflow.wire.proto import HEALTH
from tests.serve.grpc.stub import OIP, SECONDS, grpc_served, refused, stub
from tests.serve.test_repository import Slow, listening

pytestmark = pytest.mark.usefixtures("grpc_server")

SERVICE = "grpc.health.v1.Health"
STATES = HEALTH.enum("grpc.health.v1.HealthCheckResponse.ServingStatus")


@pytest.fixture(scope="module")
def server(grpc_server):
    with grpc_served() as running:
        yield running


@pytest.fixture
def slow():
    made = Slow()
    yield made
    made.open.set()


@pytest.mark.parametrize("name", ["", OIP, SERVICE, "tensorflow.serving.PredictionService"])
def test_the_server_and_its_services_serve(server, name):
    with stub(server) as client:
        assert client.call(SERVICE, "Check", service=name).status == STATES["SERVING"]
        assert client.call(SERVICE, "List").statuses[name].status == STATES["SERVING"]


def test_a_service_that_there_is_not_is_not_found(server):
    request = HEALTH["grpc.health.v1.HealthCheckRequest"](service="x")
    with stub(server) as client:
        with refused("NOT_FOUND", "no service 'x'"):
            client.call(SERVICE, "Check", request)
        watch = client.method(SERVICE, "Watch")(request, timeout=SECONDS)
        assert next(watch).status == STATES["SERVICE_UNKNOWN"]
        watch.cancel()


def test_what_is_loading_is_not_serving_and_who_watches_is_told_when_it_does(slow):
    with listening({"m": slow.flow()}, grpc_port=0) as server, stub(server) as client:
        assert slow.opening.acquire(timeout=60)
        request = HEALTH["grpc.health.v1.HealthCheckRequest"]()
        watch = client.method(SERVICE, "Watch")(request, timeout=SECONDS)
        assert next(watch).status == STATES["NOT_SERVING"]
        for name in ("", OIP):
            assert client.call(SERVICE, "Check", service=name).status == STATES["NOT_SERVING"]
        assert not client.oip("ServerReady").ready
        assert client.oip("ServerLive").live
        slow.open.set()
        assert next(watch).status == STATES["SERVING"]
        assert client.oip("ServerReady").ready
        assert client.call(SERVICE, "Check").status == STATES["SERVING"]
        watch.cancel()


def test_who_watches_is_told_that_the_server_ends():
    server = grpc_served().start()
    with stub(server) as client:
        request = HEALTH["grpc.health.v1.HealthCheckRequest"]()
        watch = client.method(SERVICE, "Watch")(request, timeout=SECONDS)
        assert next(watch).status == STATES["SERVING"]
        server.stop()
        assert [one.status for one in watch] == [STATES["NOT_SERVING"]]
