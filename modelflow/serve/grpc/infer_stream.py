"""The answers in a stream of ``ModelStreamInfer``."""

from typing import Any

from modelflow.buffer import Buffer
from modelflow.serve.model import Model
from modelflow.serve.open_inference import tensor_of
from modelflow.serve.rows import values_of
from modelflow.wire.open_inference.infer import InferAnswer, InferRequest
from modelflow.wire.open_inference.infer_message import infer_message
from modelflow.wire.open_inference.messages import OPEN_INFERENCE
from modelflow.wire.problem import Problem

__all__ = ["InferParts", "stream_answer", "stream_problem"]

_FINAL = "triton_final_response"


class InferParts:
    """Each buffer of a request as an answer of its own, as it comes. A `modelflow.serve.feed.Form`.

    The last answer says that it is: the last buffer's, or, where the end was not known when that
    was sent, one without outputs.
    """

    def __init__(self, model: Model, request: InferRequest, message: Any) -> None:
        """Takes who answers, and what was asked."""
        self._model = model
        self._request = request
        self._message = message
        self._ports = {port.name: port for port in model.signature.outputs}
        self._is_final_sent = False

    def part(self, name: str, buffer: Buffer, *, is_last: bool) -> Any | None:
        """Returns the answer for a buffer; None: its output was not asked for."""
        request = self._request
        if request.outputs and name not in request.outputs:
            return None
        port = self._ports[name]
        self._is_final_sent = is_last
        tensor = tensor_of(port, values_of(port, [buffer]), request)
        return stream_answer(self._answer(tensor), is_final=is_last)

    def problem(self, problem: Problem) -> Any:
        """Returns the answer of a request that failed; the stream goes on."""
        return stream_problem(self._message, problem)

    def end(self) -> Any | None:
        """Returns the answer that only says that there is none behind it."""
        if self._is_final_sent:
            return None
        return stream_answer(self._answer(), is_final=True)

    def _answer(self, *tensors: Any) -> InferAnswer:
        model = self._model
        return InferAnswer(model.name, str(model.version), tensors, self._request.id)


def stream_answer(answer: InferAnswer, *, is_final: bool) -> Any:
    """Returns an answer as a ``ModelStreamInferResponse``."""
    response = infer_message(answer)
    response.parameters[_FINAL].bool_param = is_final
    return OPEN_INFERENCE["inference.ModelStreamInferResponse"](infer_response=response)


def stream_problem(request: Any, problem: Problem) -> Any:
    """Returns the answer to a request that failed; the stream goes on."""
    answer = OPEN_INFERENCE["inference.ModelStreamInferResponse"](error_message=str(problem))
    response = answer.infer_response
    response.model_name, response.model_version = request.model_name, request.model_version
    response.id = request.id
    response.parameters[_FINAL].bool_param = True
    return answer
