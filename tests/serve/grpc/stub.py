"""A client over gRPC that knows the methods from their descriptors."""

import contextlib

import grpc
import numpy as np
import pytest

from modelflow.wire.proto import HEALTH, OPEN_INFERENCE, REFLECTION, TF_SERVING
from modelflow.wire.tf_serving.tensor_proto import fill_proto
from tests.serve.clients import served

OIP = "inference.GRPCInferenceService"
PREDICTION = "tensorflow.serving.PredictionService"
PROTOCOLS = {"inference": OPEN_INFERENCE, "tensorflow": TF_SERVING}
X = np.arange(6, dtype=np.float32).reshape(2, 3)
SECONDS = 60


def grpc_served(*args, **options):
    """Returns a server with the model "m", over REST and gRPC."""
    return served(*args, grpc_port=0, **options)


class Stub:
    """A client that calls the methods of a server."""

    def __init__(self, channel):
        self.channel = channel

    def method(self, service, name):
        """Returns the callable of a method."""
        package = service.split(".")[0]
        protocol = PROTOCOLS.get(package) or (HEALTH if "health" in service else REFLECTION)
        found = protocol.methods(service)[name]
        kinds = ("unary", "stream")
        kind = f"{kinds[found.client_streaming]}_{kinds[found.server_streaming]}"
        return getattr(self.channel, kind)(
            f"/{service}/{name}",
            lambda message: message.SerializeToString(),
            protocol[found.output_type.full_name].FromString,
        )

    def call(self, service, name, message=None, /, timeout=SECONDS, **more):
        """Returns the reply to a message, which may be given by its fields."""
        if message is None:
            package = service.split(".")[0]
            protocol = PROTOCOLS.get(package) or HEALTH
            kind = protocol.methods(service)[name].input_type.full_name
            message = protocol[kind](**more)
        return self.method(service, name)(message, timeout=timeout)

    def oip(self, name, message=None, /, **more):
        return self.call(OIP, name, message, **more)


@contextlib.contextmanager
def stub(server):
    with grpc.insecure_channel(server.grpc_address) as channel:
        yield Stub(channel)


@contextlib.contextmanager
def refused(code, text=""):
    """Expects that a call fails with this code and text; yields the error."""
    found = []
    with pytest.raises(grpc.RpcError) as error:
        yield found
    found.append(error.value)
    assert (error.value.code().name, text in error.value.details()) == (code, True), error.value


def infer(array=X, raw=True, **more):
    """Returns a request to infer: ``array`` as the input "input"."""
    message = OPEN_INFERENCE["inference.ModelInferRequest"](**{"model_name": "m", **more})
    tensor = message.inputs.add(name="input", datatype="FP32", shape=array.shape)
    if raw:
        message.raw_input_contents.append(array.tobytes())
    else:
        tensor.contents.fp32_contents.extend(array.ravel().tolist())
    return message


def predict(array=X, name="m", **spec):
    """Returns a request to predict."""
    message = TF_SERVING["tensorflow.serving.PredictRequest"]()
    message.model_spec.name = name
    if "version" in spec:
        message.model_spec.version.value = spec.pop("version")
    for key, value in spec.items():
        setattr(message.model_spec, key, value)
    fill_proto(message.inputs["input"], array)
    return message
