"""TensorFlow Serving over gRPC: ``PredictionService`` and ``ModelService``."""

from functools import partial
from typing import Any

from modelflow.serve.examples import send_examples
from modelflow.serve.fleet import Fleet
from modelflow.serve.grpc.rpc import Rpc
from modelflow.serve.grpc.service import Answerer, Service
from modelflow.serve.grpc.tasks import Tasks, examples_response, read_tasks
from modelflow.serve.keys import Group
from modelflow.serve.model import Inference, Model
from modelflow.serve.repository.models import Models
from modelflow.serve.status import GRPC_STATUS
from modelflow.serve.tensorflow_serving import (
    outputs_of,
    signatures_of,
    statuses_of,
)
from modelflow.wire.problem import Code, Problem, shown
from modelflow.wire.tf_serving.documents import (
    CLASSIFY_METHOD,
    REGRESS_METHOD,
    VersionStatus,
    signature_message,
)
from modelflow.wire.tf_serving.examples import examples_of_input
from modelflow.wire.tf_serving.messages import TF_SERVING
from modelflow.wire.tf_serving.predict_message import (
    predict_arrays,
    predict_response,
    wanted_outputs,
)

__all__ = ["TensorflowGrpc"]

_METADATA = "signature_def"
_RELOAD = "HandleReloadConfigRequest"
_STATES = "tensorflow.serving.ModelVersionStatus.State"


class TensorflowGrpc:
    """Answers predict, status and metadata requests."""

    def __init__(self, models: Models, fleet: Fleet) -> None:
        """Takes what is served, and what changes that."""
        self._models = models
        self._fleet = fleet
        answers: dict[str, Answerer] = {
            "Predict": self._predict,
            "GetModelMetadata": self._metadata,
            "Classify": partial(self._examples, CLASSIFY_METHOD),
            "Regress": partial(self._examples, REGRESS_METHOD),
            "MultiInference": self._tasks,
        }
        status = {"GetModelStatus": self._status, _RELOAD: self._reload}
        groups = {_RELOAD: Group.REPOSITORY}
        self.services: tuple[Service, ...] = (
            Service("tensorflow.serving.PredictionService", TF_SERVING, answers),
            Service("tensorflow.serving.ModelService", TF_SERVING, status, groups=groups),
        )

    def _find(self, spec: Any) -> Model:
        return self._models.find(*_named(spec))

    def _predict(self, rpc: Rpc, message: Any) -> None:
        model = self._find(message.model_spec)
        model = model.with_signature(message.model_spec.signature_name)
        wanted = wanted_outputs(message.output_filter, model.outputs)
        arrays = predict_arrays(message, model.types, most_elements=model.limits.elements)
        done = partial(rpc.settle, _prediction, wanted)
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

    def _examples(self, method: str, rpc: Rpc, message: Any) -> None:
        model = self._find(message.model_spec).with_signature(message.model_spec.signature_name)
        examples = examples_of_input(message.input)
        done = partial(rpc.settle, examples_response, method)
        rpc.on_gone = send_examples(model, examples, done, rpc.seconds, rpc.visit).cancel

    def _tasks(self, rpc: Rpc, message: Any) -> None:
        tasks = read_tasks(message)
        found = self._find(tasks[0].model_spec)
        models = [found.with_signature(task.model_spec.signature_name) for task in tasks]
        Tasks(rpc, tasks, models).send(examples_of_input(message.input))

    def _reload(self, rpc: Rpc, message: Any) -> None:
        self._fleet.configure(message.SerializeToString(), partial(_reloaded, rpc))

    def _status(self, rpc: Rpc, message: Any) -> None:
        found = map(_status, statuses_of(self._models, *_named(message.model_spec)))
        answer = TF_SERVING["tensorflow.serving.GetModelStatusResponse"](model_version_status=found)
        rpc.answer(answer)


def _reloaded(rpc: Rpc, error: Exception | None) -> None:
    def done() -> Any:
        if error is not None:
            raise error
        answer = TF_SERVING["tensorflow.serving.ReloadConfigResponse"]()
        answer.status.error_code = 0
        return answer

    rpc.settle(done)


def _named(spec: Any) -> tuple[str, str, str]:
    """The name, version and label of a ``ModelSpec``."""
    if not spec.name:
        message = "ModelSpec has no name specified."
        raise Problem(message)
    version = str(spec.version.value) if spec.HasField("version") else ""
    return spec.name, version, spec.version_label


def _prediction(wanted: tuple[str, ...], call: Inference) -> Any:
    outputs, model = outputs_of(call), call.model
    chosen = {name: outputs[name] for name in wanted}
    return predict_response(model.name, model.version, model.signature_name, chosen)


def _status(one: VersionStatus) -> dict[str, Any]:
    code = 0 if one.error_code == "OK" else GRPC_STATUS[Code(one.error_code)]
    return {
        "version": one.version,
        "state": TF_SERVING.enum(_STATES)[one.state],
        "status": {"error_code": code, "error_message": one.error_message},
    }
