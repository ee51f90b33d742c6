"""SavedModels like the model of TensorFlow Serving's tutorial: predict, classify and regress."""

import importlib

import pytest

CLASSIFY, REGRESS = "tensorflow/serving/classify", "tensorflow/serving/regress"


def tensorflow():
    """TensorFlow, which makes the models."""
    return pytest.importorskip("tensorflow", reason="tensorflow is not installed")


def write_saved_model(path, plus=2.0, has_default=True):
    """Writes ``y = x / 2 + plus``, from numbers and from examples with the feature "x"."""
    v1 = tensorflow().compat.v1
    with v1.Graph().as_default(), v1.Session() as session:
        half = v1.get_variable("half", initializer=0.5)
        examples = v1.placeholder(v1.string, [None], name="examples")
        parsed = v1.parse_example(examples, {"x": v1.FixedLenFeature([1], v1.float32)})

        def line(x):
            return half * x + plus

        x = v1.placeholder(v1.float32, [None, 1], name="x")
        y = line(parsed["x"])
        names = v1.tile(v1.constant([["less", "more"]]), [v1.shape(examples)[0], 1])
        info = v1.saved_model.utils.build_tensor_info
        saved = v1.saved_model.signature_def_utils
        signatures = {
            "serving_default" if has_default else "predict": saved.predict_signature_def(
                {"x": x}, {"y": v1.identity(line(x), name="y")}
            ),
            "classify": saved.classification_signature_def(
                examples, names, v1.concat([y, 2 * y], axis=1)
            ),
            "regress": saved.regression_signature_def(examples, v1.identity(y, name="r")),
            "scores": saved.build_signature_def(
                {"inputs": info(examples)}, {"scores": info(v1.identity(y, name="s"))}, CLASSIFY
            ),
        }
        session.run(v1.global_variables_initializer())
        builder = v1.saved_model.builder.SavedModelBuilder(str(path))
        builder.add_meta_graph_and_variables(session, ["serve"], signatures)
        builder.save()
    return path


def example(**features):
    """Returns a ``tf.train.Example`` of floats."""
    train = tensorflow().train
    feature = {
        name: train.Feature(float_list=train.FloatList(value=[value]))
        for name, value in features.items()
    }
    return train.Example(features=train.Features(feature=feature))


def apis():
    """Returns the generated modules and stubs of tensorflow-serving-api, in one mapping."""
    found = {}
    for name in (
        "classification_pb2",
        "regression_pb2",
        "inference_pb2",
        "predict_pb2",
        "prediction_log_pb2",
        "get_model_metadata_pb2",
        "get_model_status_pb2",
        "model_management_pb2",
        "prediction_service_pb2_grpc",
        "model_service_pb2_grpc",
    ):
        pytest.importorskip(
            f"tensorflow_serving.apis.{name}",
            reason="tensorflow-serving-api is not installed",
            exc_type=ImportError,
        )
        found |= vars(importlib.import_module(f"tensorflow_serving.apis.{name}"))
    return found
