"""Classify, Regress and MultiInference: the answers, and several signatures asked at once."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from modelflow.serve.examples import classes_of, send_examples, values_of_regression
from modelflow.serve.grpc.rpc import Rpc
from modelflow.serve.model import Inference, Model
from modelflow.wire.problem import Code, Problem, shown
from modelflow.wire.tf_serving.documents import CLASSIFY_METHOD, REGRESS_METHOD
from modelflow.wire.tf_serving.examples import Example
from modelflow.wire.tf_serving.messages import TF_SERVING

__all__ = ["Tasks", "examples_response", "read_tasks"]

_RESPONSES = {CLASSIFY_METHOD: "ClassificationResponse", REGRESS_METHOD: "RegressionResponse"}
_RESULTS = {CLASSIFY_METHOD: "classification_result", REGRESS_METHOD: "regression_result"}


def read_tasks(message: Any) -> Sequence[Any]:
    """Returns the tasks of a ``MultiInferenceRequest``.

    Raises:
        Problem: there is none, they are of several models, one is there twice, or of a method that
            takes no examples.
    """
    tasks = message.tasks
    if not tasks:
        text = "Inference request contains no tasks"
        raise Problem(text)
    seen: set[str] = set()
    for task in tasks:
        spec = task.model_spec
        if not spec.name or spec.name != tasks[0].model_spec.name:
            text = "All ModelSpecs in a MultiInferenceRequest must access the same model name."
            raise Problem(text)
        if spec.signature_name in seen:
            text = f"Duplicate evaluation of signature: {spec.signature_name}"
            raise Problem(text)
        seen.add(spec.signature_name)
        if task.method_name not in _RESULTS:
            text = f"Unsupported signature method_name: {shown(task.method_name)}"
            raise Problem(text, Code.UNIMPLEMENTED)
    return list(tasks)


class Tasks:
    """The same examples for several signatures: one answer, when all have theirs."""

    def __init__(self, rpc: Rpc, tasks: Sequence[Any], models: Sequence[Model]) -> None:
        """Takes who asks, what, and the signature of each task."""
        self._rpc = rpc
        self._tasks = list(zip(tasks, models, strict=True))
        self._calls: dict[int, Inference] = {}
        self._done: dict[int, Inference] = {}

    def send(self, examples: Sequence[Example]) -> None:
        """Sends the examples to each.

        Raises:
            Problem: one does not take them; the others are given up.
        """
        self._rpc.on_gone = self._cancel
        try:
            for place, (_, model) in enumerate(self._tasks):
                self._calls[place] = send_examples(
                    model,
                    examples,
                    partial(self._one_done, place),
                    self._rpc.seconds,
                    self._rpc.visit,
                )
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
        Problem: the request failed, or what came is none.
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
    assert found is not None  # `classes_of` gives one of the two
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
