"""Tests that our messages equal the published messages from which their packages were generated."""

import importlib
from types import MappingProxyType

import pytest

from modelflow.wire.proto import HEALTH, OPEN_INFERENCE, REFLECTION, TF_SERVING

TENSORFLOW = {
    "tensorflow.core.protobuf.error_codes_pb2": "tensorflow.error.Code",
    "tensorflow.core.framework.types_pb2": "tensorflow.DataType",
    "tensorflow.core.framework.tensor_pb2": "tensorflow.TensorProto",
    "tensorflow.core.framework.tensor_shape_pb2": "tensorflow.TensorShapeProto",
    "tensorflow.core.example.example_pb2": "tensorflow.Example",
    "tensorflow.core.example.feature_pb2": "tensorflow.Features",
    "tensorflow.core.protobuf.meta_graph_pb2": "tensorflow.SignatureDef",
}
SERVING = (
    "apis.model",
    "apis.predict",
    "apis.input",
    "apis.classification",
    "apis.regression",
    "apis.inference",
    "apis.get_model_metadata",
    "apis.get_model_status",
    "apis.model_management",
    "apis.prediction_log",
    "util.status",
    "apis.status",
    "config.model_server_config",
    "config.logging_config",
    "config.log_collector_config",
    "config.file_system_storage_path_source",
    "apis.prediction_service",
    "apis.model_service",
)
# The fields that our messages omit. No client sends or needs them.
LEFT_OUT = MappingProxyType(
    {
        "tensorflow.TensorProto": {"resource_handle_val", "variant_val", "float8_val"},
        "tensorflow.TensorInfo": {"composite_tensor"},
        "tensorflow.serving.PredictionLog": {
            "log_metadata",
            "predict_streamed_log",
            "session_run_log",
        },
        "tensorflow.serving.PredictRequest": {
            "predict_streamed_options",
            "client_id",
            "request_options",
        },
        "tensorflow.serving.FileSystemStoragePathSourceConfig": {
            "servables",
            "file_system_poll_wait_seconds",
            "fail_if_zero_versions_at_startup",
            "servable_versions_always_present",
        },
        "tensorflow.serving.SamplingConfig": {"per_task_sampling_configs"},
        "tensorflow.serving.LoggingConfig": {"custom_logging_config"},
        "inference.ModelInput": {
            "reshape",
            "is_shape_tensor",
            "allow_ragged_batch",
            "optional",
            "is_non_linear_format_io",
        },
        "inference.ModelOutput": {"reshape", "is_shape_tensor", "is_non_linear_format_io"},
        "inference.ModelDynamicBatching": {"priority_queue_policy"},
        "inference.ModelConfig": {
            "runtime",
            "batch_input",
            "batch_output",
            "optimization",
            "sequence_batching",
            "ensemble_scheduling",
            "instance_group",
            "default_model_filename",
            "cc_model_filenames",
            "metric_tags",
            "model_warmup",
            "model_operations",
            "model_repository_agents",
            "response_cache",
            "model_metrics",
        },
    }
)


def published(module):
    """Returns the descriptor of a generated module's file."""
    return pytest.importorskip(
        module, reason=f"{module} is not installed", exc_type=ImportError
    ).DESCRIPTOR


def files(protocol, *names):
    return [protocol.pool.FindFileByName(f"modelflow/wire/{name}.proto") for name in names]


def members(file):
    """Returns all messages, enumerations and services of a file, by their full names."""
    found = {}

    def add(held):
        found[held.full_name] = held
        for inner in (*held.nested_types, *held.enum_types):
            found[inner.full_name] = inner
            if hasattr(inner, "fields"):
                add(inner)

    for message in file.message_types_by_name.values():
        add(message)
    for group in (file.enum_types_by_name, file.services_by_name):
        found.update((one.full_name, one) for one in group.values())
    for public in file.public_dependencies:
        found |= members(public)
    return found


def shape(field):
    """Returns all of a field's properties that matter on the wire, and its name."""
    held = field.message_type or field.enum_type
    return (
        field.number,
        field.type,
        field.is_repeated,
        field.is_packed,
        held.full_name if held else None,
        field.containing_oneof.name if field.containing_oneof else None,
    )


def compare(ours, theirs):
    """Compares the definitions in both files; returns their names."""
    both = ours.keys() & theirs.keys()
    for name in both:
        mine, published = ours[name], theirs[name]
        if hasattr(mine, "fields"):
            left = LEFT_OUT.get(name, set())
            wanted = {one.name: shape(one) for one in published.fields if one.name not in left}
            assert {one.name: shape(one) for one in mine.fields} == wanted, name
        elif hasattr(mine, "values"):
            wanted = {one.name: one.number for one in published.values}
            assert {one.name: one.number for one in mine.values}.items() <= wanted.items(), name
        else:
            for method in mine.methods:
                other = published.methods_by_name[method.name]
                for side in ("input_type", "output_type"):
                    assert getattr(method, side).full_name == getattr(other, side).full_name
                for side in ("client_streaming", "server_streaming"):
                    assert getattr(method, side) == getattr(other, side)
    return both


@pytest.mark.parametrize("module", TENSORFLOW)
def test_tensorflows_messages_are_the_published_ones(module):
    pytest.importorskip("tensorflow", reason="tensorflow is not installed")
    (ours, errors) = files(TF_SERVING, "tf_serving/tensorflow", "tf_serving/error_codes")
    found = compare(members(ours) | members(errors), members(published(module)))
    assert TENSORFLOW[module] in found


def test_tensorflow_servings_messages_are_the_published_ones():
    pytest.importorskip("tensorflow", reason="tensorflow is not installed")
    published("tensorflow_serving.apis.predict_pb2")
    theirs = {}
    for name in SERVING:
        try:
            module = importlib.import_module(f"tensorflow_serving.{name}_pb2")
        except ModuleNotFoundError:  # the module of the status differs between versions
            continue
        theirs |= members(module.DESCRIPTOR)
    (file,) = files(TF_SERVING, "tf_serving/serving")
    ours = members(file)
    # No package has the parameters of batching, because they are only read from a text.
    assert ours.keys() - compare(ours, theirs) == {"tensorflow.serving.BatchingParameters"}


def test_open_inferences_messages_are_the_published_ones():
    theirs = members(published("tritonclient.grpc.service_pb2"))
    theirs |= members(published("tritonclient.grpc.model_config_pb2"))
    (file,) = files(OPEN_INFERENCE, "open_inference/inference")
    ours = members(file)
    assert compare(ours, theirs) == ours.keys()


def test_the_health_messages_are_the_published_ones():
    theirs = members(published("grpc_health.v1.health_pb2"))
    (file,) = files(HEALTH, "grpc/health")
    ours = members(file)
    assert compare(ours, theirs) == ours.keys()


def test_the_reflection_messages_are_the_published_ones():
    theirs = members(published("grpc_reflection.v1alpha.reflection_pb2"))
    (file,) = files(REFLECTION, "grpc/reflection_v1alpha")
    ours = members(file)
    assert compare(ours, theirs) == ours.keys()


def test_a_clients_predict_request_is_read_and_its_answer_understood():
    pytest.importorskip("tensorflow", reason="tensorflow is not installed")
    module = pytest.importorskip(
        "tensorflow_serving.apis.predict_pb2", reason="tensorflow-serving-api is not installed"
    )
    theirs = module.PredictRequest(output_filter=["y"])
    theirs.model_spec.name = "m"
    theirs.model_spec.version.value = 3
    theirs.inputs["x"].float_val.extend([1, 2])
    ours = TF_SERVING.parse("tensorflow.serving.PredictRequest", theirs.SerializeToString())
    assert (
        ours.model_spec.name,
        ours.model_spec.version.value,
        list(ours.inputs["x"].float_val),
    ) == ("m", 3, [1, 2])
    answer = TF_SERVING["tensorflow.serving.PredictResponse"](model_spec=ours.model_spec)
    answer.outputs["y"].half_val.extend([1, 2])
    data = answer.SerializeToString(deterministic=True)
    assert module.PredictResponse.FromString(data).SerializeToString(deterministic=True) == data


def test_a_clients_infer_request_is_read_and_its_answer_understood():
    module = pytest.importorskip(
        "tritonclient.grpc.service_pb2", reason="tritonclient is not installed"
    )
    theirs = module.ModelInferRequest(model_name="m", id="1", raw_input_contents=[b"abcd"])
    theirs.inputs.add(name="x", datatype="FP32", shape=[1]).parameters["k"].int64_param = 3
    ours = OPEN_INFERENCE.parse("inference.ModelInferRequest", theirs.SerializeToString())
    assert (ours.inputs[0].parameters["k"].int64_param, ours.raw_input_contents[0]) == (3, b"abcd")
    answer = OPEN_INFERENCE["inference.ModelInferResponse"](
        model_name="m", raw_output_contents=[b"x"]
    )
    answer.outputs.add(name="y", datatype="FP32", shape=[1]).contents.fp32_contents.append(1)
    data = answer.SerializeToString(deterministic=True)
    assert module.ModelInferResponse.FromString(data).SerializeToString(deterministic=True) == data
