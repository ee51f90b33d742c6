"""TensorFlow Serving over gRPC: ``PredictionService`` and ``ModelService``."""

from typing import Any, NoReturn

from modelflow.serve.call import Call
from modelflow.serve.grpc.rpc import Rpc
from modelflow.serve.grpc.service import Service
from modelflow.serve.keys import Group
from modelflow.serve.models import Models
from modelflow.serve.served_model import ServedModel
from modelflow.serve.status import GRPC_STATUS
from modelflow.serve.tensorflow_serving import (
    SIGNATURE,
    check_signature,
    no_examples,
    outputs_of,
    signatures_of,
    statuses_of,
    types_of,
)
from modelflow.wire.problem import Code, Problem, shown
from modelflow.wire.tf_serving.documents import VersionStatus, signature_message
from modelflow.wire.tf_serving.messages import TF_SERVING
from modelflow.wire.tf_serving.predict_message import (
    predict_arrays,
    predict_response,
    wanted_outputs,
)

__all__ = ["TensorflowGrpc"]

_METADATA = "signature_def"
_STATES = TF_SERVING.enum("tensorflow.serving.ModelVersionStatus.State")


class TensorflowGrpc:
    """Answers predict, status and metadata requests."""

    def __init__(self, models: Models) -> None:
        """Takes what is served."""
        self._models = models
        answers = {
            "Predict": self._predict,
            "GetModelMetadata": self._metadata,
            "Classify": self._examples,
            "Regress": self._examples,
            "MultiInference": self._tasks,
        }
        missing = {"HandleReloadConfigRequest": "write the models.config, and send SIGHUP"}
        status = {"GetModelStatus": self._status}
        groups = {"HandleReloadConfigRequest": Group.REPOSITORY}
        self.services: tuple[Service, ...] = (
            Service("tensorflow.serving.PredictionService", TF_SERVING, answers),
            Service("tensorflow.serving.ModelService", TF_SERVING, status, missing, groups),
        )

    def _find(self, spec: Any) -> ServedModel:
        return self._models.find(*_named(spec))

    def _predict(self, rpc: Rpc, message: Any) -> None:
        model = self._find(message.model_spec)
        check_signature(message.model_spec.signature_name)
        wanted = wanted_outputs(
            message.output_filter, [port.name for port in model.signature.outputs]
        )
        arrays = predict_arrays(message, types_of(model), most_elements=model.limits.elements)

        def done(call: Call) -> None:
            rpc.settle(lambda: [_prediction(call, wanted)])

        rpc.on_gone = model.infer(arrays, done, rpc.seconds, rpc.visit).cancel

    def _metadata(self, rpc: Rpc, message: Any) -> None:
        if not message.metadata_field:
            text = f"GetModelMetadataRequest: no metadata_field; expected {_METADATA!r}"
            raise Problem(text)
        for name in message.metadata_field:
            if name != _METADATA:
                text = f"Metadata field {shown(name)} is not supported; expected {_METADATA!r}"
                raise Problem(text)
        model = self._find(message.model_spec)
        answer = TF_SERVING["tensorflow.serving.GetModelMetadataResponse"]()
        answer.model_spec.name = model.name
        answer.model_spec.version.value = model.version
        answer.metadata[_METADATA].Pack(signature_message(signatures_of(model)))
        rpc.answer(answer)

    def _examples(self, _: Rpc, message: Any) -> NoReturn:
        self._find(message.model_spec)
        raise no_examples()

    def _tasks(self, _: Rpc, message: Any) -> NoReturn:
        for task in message.tasks:
            self._find(task.model_spec)
        raise no_examples()

    def _status(self, rpc: Rpc, message: Any) -> None:
        found = map(_status, statuses_of(self._models, *_named(message.model_spec)))
        answer = TF_SERVING["tensorflow.serving.GetModelStatusResponse"](model_version_status=found)
        rpc.answer(answer)


def _named(spec: Any) -> tuple[str, str, str]:
    """The name, version and label of a ``ModelSpec``."""
    if not spec.name:
        message = "ModelSpec has no name specified."
        raise Problem(message)
    version = str(spec.version.value) if spec.HasField("version") else ""
    return spec.name, version, spec.version_label


def _prediction(call: Call, wanted: tuple[str, ...]) -> Any:
    outputs = outputs_of(call)
    chosen = {name: outputs[name] for name in wanted}
    return predict_response(call.model.name, call.model.version, SIGNATURE, chosen)


def _status(one: VersionStatus) -> dict[str, Any]:
    code = 0 if one.error_code == "OK" else GRPC_STATUS[Code(one.error_code)]
    return {
        "version": one.version,
        "state": _STATES[one.state],
        "status": {"error_code": code, "error_message": one.error_message},
    }
