"""``ModelInfer`` requests of one turn of the server's loop, read and answered together."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from modelflow.buffer import Buffer
from modelflow.errors import ModelflowError
from modelflow.serve.grpc.service import Rpc
from modelflow.serve.protocols.open_inference import find_model, tensor_of
from modelflow.serve.repository.models import Models
from modelflow.serve.requests.model import Model
from modelflow.serve.requests.rows import check_item, values_of
from modelflow.serve.requests.status import inside, problem_of
from modelflow.serve.rest.tf_serving import column_of
from modelflow.wire.open_inference.infer import InferAnswer, InferRequest
from modelflow.wire.open_inference.infer_message import infer_message, infer_request
from modelflow.wire.problem import Problem
from modelflow.wire.proto import OPEN_INFERENCE
from modelflow.wire.raw_tensor import plain_numbers, to_raw
from modelflow.wire.tensor import datatype_of

if TYPE_CHECKING:
    from modelflow.serve.requests.served_model import ServedModel


_ALL = InferRequest({})


class InferRows:
    """Reads and answers them; a `modelflow.serve.requests.pending.RowReader` of messages.

    What is not plainly a row that fits is left to who reads one request at a time, who says what is
    wrong with it: nothing is refused here.
    """

    def __init__(self, alone: Callable[[Any, Model], None]) -> None:
        """Takes who has a model answer a request by itself."""
        self.alone = alone

    def reply(self, answer: Any) -> Any:
        """Returns the answer as it is: a message."""
        return answer

    refusal = reply

    def rows(
        self, bodies: Sequence[Any], model: "ServedModel"
    ) -> tuple[Sequence[int], npt.NDArray[Any]]:
        """Returns which messages ask for one row that fits, and these rows, ``(count, ...)``.

        All of the same shape, the first one's.
        """
        (port,) = model.signature.inputs
        row_type = model.unread.row_type
        assert row_type is not None  # else nobody asks
        name, datatype = port.name, datatype_of(row_type)
        places: list[int] = []
        parts: list[bytes] = []
        shape, size = (), 0
        for place, message in enumerate(bodies):
            inputs, raw = message.inputs, message.raw_input_contents
            if not len(inputs) == len(raw) == 1:
                continue
            if message.id or message.outputs or message.parameters:
                continue
            (tensor,), (data,) = inputs, raw
            if tensor.name != name or tensor.datatype != datatype or tensor.HasField("contents"):
                continue
            if tensor.parameters:
                continue
            if not places:
                shape, size = tuple(tensor.shape), len(data)
                if not _is_row(data, datatype, shape, model):
                    continue
            elif len(data) != size or tuple(tensor.shape) != shape:
                continue
            places.append(place)
            parts.append(data)
        rows = np.ndarray((len(parts), *shape[1:]), row_type, b"".join(parts)) if parts else _NONE
        return places, rows

    def answers(
        self, model: "ServedModel", found: Mapping[str, Sequence[Buffer]]
    ) -> Sequence[Any | Problem]:
        """Returns the message that answers each row."""
        try:
            answers = _together(model, found)
        except Problem:  # an output has no form as bytes
            answers = None
        if answers is not None:
            return answers
        count = max(map(len, found.values()), default=0)
        return [
            _answer(model, {name: buffers[place] for name, buffers in found.items()})
            for place in range(count)
        ]


_NONE = np.empty(0)


def _is_row(data: bytes, datatype: str, shape: tuple[int, ...], model: "ServedModel") -> bool:
    array = plain_numbers(data, datatype, shape)
    if array is None or not shape or shape[0] != 1:
        return False
    try:
        check_item(model.signature.inputs[0], array[0])
    except Problem:  # which whoever asks is told
        return False
    return array.size <= model.limits.elements


def _together(model: "ServedModel", found: Mapping[str, Sequence[Buffer]]) -> list[Any] | None:
    """Returns the answers where each output is numbers of one shape; None: they are not."""
    kind = OPEN_INFERENCE["inference.ModelInferResponse"]
    common = kind(model_name=model.name, model_version=str(model.version))
    columns: list[tuple[bytes, int]] = []
    count = 0
    for name, buffers in found.items():
        column = column_of(buffers) if model.outputs[name].is_batched else None
        if column is None or column.dtype.kind not in "biuf":
            return None
        count, datatype = len(column), datatype_of(column.dtype)
        raw = to_raw(column, datatype, f"output {name!r}")
        columns.append((raw, len(raw) // count))
        common.outputs.add(name=name, datatype=datatype, shape=(1, *column.shape[1:]))
    answers = []
    for place in range(count):
        message = kind()
        message.CopyFrom(common)
        for raw, size in columns:
            message.raw_output_contents.append(raw[place * size : (place + 1) * size])
        answers.append(message)
    return answers


def _answer(model: "ServedModel", row: Mapping[str, Buffer]) -> Any | Problem:
    """Returns the message that answers a row, or why there is none."""
    tensors = []
    try:
        for name, buffer in row.items():
            if buffer.error is not None:
                return problem_of(buffer.error) or inside(buffer.error)
            port = model.outputs[name]
            tensors.append(tensor_of(port, values_of(port, (buffer,)), _ALL))
        return infer_message(InferAnswer(model.name, str(model.version), tuple(tensors)))
    except (Problem, ModelflowError) as error:
        return problem_of(error) or inside(error)
    except Exception as error:  # noqa: BLE001 - whatever it is, the others are answered
        return inside(error)


class InferGatherer:
    """Small requests of all models. For the server's thread."""

    def __init__(self, models: Models, ask: Callable[[Rpc, Model, InferRequest], None]) -> None:
        """Takes what is served, and what has a model answer a request by itself."""
        self._models = models
        self._ask = ask
        self._reader = InferRows(self._alone)
        self._requests: list[Rpc] = []

    def add(self, rpc: Rpc) -> None:
        """Takes a request: it is read when this turn of the loop is over."""
        if not self._requests:
            asyncio.get_running_loop().call_soon(self._end)
        self._requests.append(rpc)

    def _end(self) -> None:
        requests, self._requests = self._requests, []
        asked: dict[tuple[str, str], list[Rpc]] = {}
        for rpc in requests:
            if not rpc.is_over:  # else who asked has gone
                message = rpc.body
                asked.setdefault((message.model_name, message.model_version), []).append(rpc)
        for (name, version), together in asked.items():
            self._send(name, version, together)

    def _send(self, name: str, version: str, together: list[Rpc]) -> None:
        try:
            model = find_model(self._models, name, version)
        except Problem as missing:
            for rpc in together:
                # What is wrong with the message is said first.
                self._read(rpc, partial(_refuse, rpc, missing))
            return
        try:
            model.receive(together, self._reader)
        except Exception as error:  # noqa: BLE001 - of whatever kind, nobody is left waiting
            problem = inside(error)
            for rpc in together:
                rpc.refuse(problem)

    def _alone(self, rpc: Rpc, model: Model) -> None:
        self._read(rpc, partial(self._ask, rpc, model))

    def _read(self, rpc: Rpc, then: Callable[[InferRequest], None]) -> None:
        try:
            then(infer_request(rpc.body))
        except Problem as problem:
            rpc.refuse(problem)
        except Exception as error:  # noqa: BLE001 - the others are answered all the same
            rpc.refuse(inside(error))


def _refuse(rpc: Rpc, problem: Problem, _: InferRequest) -> None:
    rpc.refuse(problem)
