"""gRPC's reflection."""

import pytest
from google.protobuf import (  # type: ignore[import-untyped]
    descriptor_database,
    descriptor_pb2,
    descriptor_pool,
)

from modelflow.wire.proto import REFLECTION, REFLECTION_PACKAGES
from tests.serve.grpc.stub import OIP, PREDICTION, SECONDS, grpc_served, stub

pytestmark = pytest.mark.usefixtures("grpc_server")


@pytest.fixture(scope="module")
def server(grpc_server):
    with grpc_served() as running:
        yield running


@pytest.fixture(params=REFLECTION_PACKAGES)
def reflect(server, request):
    """Sends a request in a stream; returns the answers."""
    kind = REFLECTION[f"{request.param}.ServerReflectionRequest"]

    def ask(*requests):
        with stub(server) as client:
            method = client.method(f"{request.param}.ServerReflection", "ServerReflectionInfo")
            return list(method((kind(**one) for one in requests), timeout=SECONDS))

    return ask


def test_services_are_listed(reflect):
    (answer,) = reflect({"list_services": ""})
    names = [one.name for one in answer.list_services_response.service]
    assert {OIP, PREDICTION, "grpc.health.v1.Health"} < set(names)
    assert [f"{package}.ServerReflection" for package in REFLECTION_PACKAGES] == names[-2:]


@pytest.mark.parametrize("symbol", [OIP, f"{OIP}.ModelInfer", PREDICTION, f"{PREDICTION}.Predict"])
def test_what_is_described_can_be_called_by_its_description(reflect, symbol):
    (answer,) = reflect({"file_containing_symbol": symbol})
    files = descriptor_database.DescriptorDatabase()
    for data in answer.file_descriptor_response.file_descriptor_proto:
        files.Add(descriptor_pb2.FileDescriptorProto.FromString(data))
    service = descriptor_pool.DescriptorPool(files).FindServiceByName(
        OIP if OIP in symbol else PREDICTION
    )
    assert {"ModelInfer", "Predict"} & set(service.methods_by_name)


def test_a_file_is_given_by_its_name(reflect):
    name = "modelflow/wire/open_inference/inference.proto"
    (answer,) = reflect({"file_by_filename": name})
    first = answer.file_descriptor_response.file_descriptor_proto[0]
    assert descriptor_pb2.FileDescriptorProto.FromString(first).name == name


def test_what_is_not_there_is_an_error_in_the_stream(reflect):
    answers = reflect(
        {"file_by_filename": "x.proto"},
        {"file_containing_symbol": "x.Y"},
        {"file_containing_extension": {"containing_type": "x"}},
        {"all_extension_numbers_of_type": "x"},
        {},
    )
    assert [one.error_response.error_code for one in answers] == [5, 5, 5, 5, 3]
    assert "'x.Y'" in answers[1].error_response.error_message
    assert answers[1].original_request.file_containing_symbol == "x.Y"
