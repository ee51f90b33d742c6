"""TensorFlow Serving over gRPC: ``PredictionService`` and ``ModelService``."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from modelflow.serve.access.keys import Group
from modelflow.serve.grpc.service import Answerer, Rpc, Service
from modelflow.serve.interfaces import ReplicaGroup
from modelflow.serve.protocols.tf_serving import (
    classes_of,
    send_examples,
    signatures_of,
    statuses_of,
    tensors_of,
    values_of_regression,
)
from modelflow.serve.repository.models import Models
from modelflow.serve.requests.model import Inference, Model
from modelflow.serve.requests.status import GRPC_STATUS
from modelflow.wire.problem import Code, Problem, refuse, shorten
from modelflow.wire.proto import TF_SERVING
from modelflow.wire.tf_serving.documents import (
    CLASSIFY_METHOD,
    REGRESS_METHOD,
    VersionStatus,
    signature_message,
)
from modelflow.wire.tf_serving.examples import Example, examples_of_input
from modelflow.wire.tf_serving.predict_message import (
    list_wanted_outputs,
    predict_arrays,
    predict_response,
)

_RESPONSES = {CLASSIFY_METHOD: "ClassificationResponse", REGRESS_METHOD: "RegressionResponse"}
_RESULTS = {CLASSIFY_METHOD: "classification_result", REGRESS_METHOD: "regression_result"}


def read_tasks(message: Any) -> Sequence[Any]:
    """Returns the tasks of a ``MultiInferenceRequest``.

    Raises:
        Problem: The request has no tasks, tasks for several models, two tasks for one signature,
            or a task whose method takes no examples.
    """
    tasks = message.tasks
    if not tasks:
        refuse("Inference request contains no tasks")
    seen: set[str] = set()
    for task in tasks:
        spec = task.model_spec
        if not spec.name or spec.name != tasks[0].model_spec.name:
            refuse("All ModelSpecs in a MultiInferenceRequest must access the same model name.")
        if spec.signature_name in seen:
            refuse(f"Duplicate evaluation of signature: {spec.signature_name}")
        seen.add(spec.signature_name)
        if task.method_name not in _RESULTS:
            refuse(
                f"Unsupported signature method_name: {shorten(task.method_name)}",
                Code.UNIMPLEMENTED,
            )
    return list(tasks)


class Tasks:
    """A request with the same examples for several signatures, and one combined reply."""

    def __init__(self, rpc: Rpc, tasks: Sequence[Any], models: Sequence[Model]) -> None:
        """Stores the call, the tasks, and the model signature of each task."""
        self._rpc = rpc
        self._tasks = list(zip(tasks, models, strict=True))
        self._calls: dict[int, Inference] = {}
        self._done: dict[int, Inference] = {}

    def send(self, examples: Sequence[Example]) -> None:
        """Sends the examples to each signature.

        Raises:
            Problem: A signature does not accept the examples. The other requests are cancelled.
        """
        self._rpc.on_gone = self._cancel
        try:
            for place, (_, model) in enumerate(self._tasks):
                done = partial(self._one_done, place)
                self._calls[place] = send_examples(model, examples, done, self._rpc.terms)
        except Problem:
            self._cancel()
            raise

    def _one_done(self, place: int, call: Inference) -> None:
        self._done[place] = call
        if len(self._done) == len(self._tasks):
            self._rpc.settle(self._answer)

    def _answer(self) -> Any:
        answer = TF_SERVING["tensorflow.serving.MultiInferenceResponse"]()
        for place, (task, model) in enumerate(self._tasks):
            result = answer.results.add()
            _fill_spec(result.model_spec, model)
            found = _result(self._done[place], task.method_name)
            getattr(result, _RESULTS[task.method_name]).CopyFrom(found)
        return answer

    def _cancel(self) -> None:
        for call in self._calls.values():
            call.cancel()


def examples_response(method: str, call: Inference) -> Any:
    """Returns the ``ClassificationResponse`` or ``RegressionResponse`` of a call.

    Raises:
        Problem: The request failed, or the outputs are no classification or regression.
    """
    answer = TF_SERVING[f"tensorflow.serving.{_RESPONSES[method]}"]()
    answer.result.CopyFrom(_result(call, method))
    _fill_spec(answer.model_spec, call.model)
    return answer


def _result(call: Inference, method: str) -> Any:
    if method == REGRESS_METHOD:
        values = values_of_regression(call).tolist()
        return TF_SERVING["tensorflow.serving.RegressionResult"](
            regressions=[{"value": value} for value in values]
        )
    labels, scores = classes_of(call)
    found = labels if labels is not None else scores
    assert found is not None  # `classes_of` returns at least one of the two
    texts = np.full(found.shape, "", object) if labels is None else labels
    numbers = np.zeros(found.shape, np.float32) if scores is None else scores
    answer = TF_SERVING["tensorflow.serving.ClassificationResult"]()
    for row_labels, row_scores in zip(texts, numbers, strict=True):
        row = answer.classifications.add()
        for label, score in zip(row_labels, row_scores, strict=True):
            row.classes.add(label=label, score=score)
    return answer


def _fill_spec(spec: Any, model: Model) -> None:
    spec.name = model.name
    spec.version.value = model.version
    spec.signature_name = model.signature_name


_METADATA = "signature_def"
_RELOAD = "HandleReloadConfigRequest"
_STATES = "tensorflow.serving.ModelVersionStatus.State"


class TensorflowGrpc:
    """The services of TensorFlow Serving: predict, examples, status and metadata."""

    def __init__(self, models: Models, replica_group: ReplicaGroup) -> None:
        """Stores the models, and the group that loads and unloads models."""
        self._models = models
        self._group = replica_group
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
        return self._models.find(*_read_spec(spec))

    def _route(self, spec: Any) -> Model:
        return self._models.route(*_read_spec(spec))

    def _predict(self, rpc: Rpc, message: Any) -> None:
        model = self._route(message.model_spec)
        model = model.with_signature(message.model_spec.signature_name)
        wanted = list_wanted_outputs(message.output_filter, model.outputs)
        arrays = predict_arrays(
            message, model.types, most_elements=model.options.max_tensor_elements
        )
        make_reply = partial(rpc.settle, _prediction, wanted)
        rpc.on_gone = model.infer(arrays, make_reply, rpc.terms).cancel

    def _metadata(self, rpc: Rpc, message: Any) -> None:
        if not message.metadata_field:
            refuse(f"GetModelMetadataRequest: no metadata_field; expected {_METADATA!r}")
        for name in message.metadata_field:
            if name != _METADATA:
                refuse(f"Metadata field {shorten(name)} is not supported; expected {_METADATA!r}")
        model = self._find(message.model_spec)
        answer = TF_SERVING["tensorflow.serving.GetModelMetadataResponse"]()
        answer.model_spec.name = model.name
        answer.model_spec.version.value = model.version
        answer.metadata[_METADATA].Pack(signature_message(signatures_of(model)))
        rpc.answer(answer)

    def _examples(self, method: str, rpc: Rpc, message: Any) -> None:
        model = self._route(message.model_spec).with_signature(message.model_spec.signature_name)
        examples = examples_of_input(message.input)
        make_reply = partial(rpc.settle, examples_response, method)
        rpc.on_gone = send_examples(model, examples, make_reply, rpc.terms).cancel

    def _tasks(self, rpc: Rpc, message: Any) -> None:
        tasks = read_tasks(message)
        found = self._route(tasks[0].model_spec)
        models = [found.with_signature(task.model_spec.signature_name) for task in tasks]
        Tasks(rpc, tasks, models).send(examples_of_input(message.input))

    def _reload(self, rpc: Rpc, message: Any) -> None:
        self._group.configure(message.SerializeToString(), partial(_reload, rpc))

    def _status(self, rpc: Rpc, message: Any) -> None:
        found = map(_status, statuses_of(self._models, *_read_spec(message.model_spec)))
        answer = TF_SERVING["tensorflow.serving.GetModelStatusResponse"](model_version_status=found)
        rpc.answer(answer)


def _reload(rpc: Rpc, error: Exception | None) -> None:
    def make_reply() -> Any:
        if error is not None:
            raise error
        answer = TF_SERVING["tensorflow.serving.ReloadConfigResponse"]()
        answer.status.error_code = 0
        return answer

    rpc.settle(make_reply)


def _read_spec(spec: Any) -> tuple[str, str, str]:
    """Returns the name, version and label of a ``ModelSpec``."""
    if not spec.name:
        refuse("ModelSpec has no name specified.")
    version = str(spec.version.value) if spec.HasField("version") else ""
    return spec.name, version, spec.version_label


def _prediction(wanted: tuple[str, ...], call: Inference) -> Any:
    outputs, model = tensors_of(call.outputs()), call.model
    chosen = {name: outputs[name] for name in wanted}
    return predict_response(model.name, model.version, model.signature_name, chosen)


def _status(one: VersionStatus) -> dict[str, Any]:
    code = 0 if one.error_code == "OK" else GRPC_STATUS[Code(one.error_code)]
    return {
        "version": one.version,
        "state": TF_SERVING.enum(_STATES)[one.state],
        "status": {"error_code": code, "error_message": one.error_message},
    }
