"""TensorFlow Serving's predict requests of one row each, read and answered together."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from modelflow.buffer import Buffer
from modelflow.errors import ModelflowError
from modelflow.graph.graph_port import GraphPort
from modelflow.http.exchange import Exchange
from modelflow.http.reply import Reply
from modelflow.serve.limits import ReadLimits
from modelflow.serve.model import Model
from modelflow.serve.refusal import JSON, refusal
from modelflow.serve.rows import check_item, values_of
from modelflow.serve.status import inside, problem_of
from modelflow.serve.tensors import as_tensor
from modelflow.wire.json_array import array_of
from modelflow.wire.problem import Problem
from modelflow.wire.tf_serving.predict import predict_answer, read_rows, rows_answers

if TYPE_CHECKING:
    from modelflow.serve.served_model import ServedModel

__all__ = ["PredictRows", "column_of"]

_WHERE = "'instances'"


class PredictRows:
    """Reads and answers them; a `modelflow.serve.row_reader.RowReader`.

    What is not plainly a row that fits is left to who reads one request at a time, who says what is
    wrong with it: nothing is refused here.
    """

    def __init__(self, limits: ReadLimits, alone: Callable[[Exchange, Model], None]) -> None:
        """Takes what a body may hold, and who has a model answer a request by itself."""
        self._limits = limits
        self.alone = alone
        self.reply = partial(Reply, 200, headers=JSON)
        self.refusal = refusal

    def rows(
        self, bodies: Sequence[bytes], model: "ServedModel"
    ) -> tuple[Sequence[int], npt.NDArray[Any]]:
        """Returns which bodies ask for one row that fits, and these rows, ``(count, ...)``."""
        found = read_rows(bodies)
        if None not in found:
            places: Sequence[int] = range(len(found))
        else:
            places = [place for place, row in enumerate(found) if row is not None]
            found = [found[place] for place in places]
        (port,) = model.signature.inputs
        try:
            array = array_of(found, model.unread.row_type, _WHERE)
            check_item(port, array[0])
            model.limits.check_elements(array.size, _WHERE)
            model.limits.check_rows(len(array), _WHERE)
        except (Problem, IndexError):  # one is wrong, or they differ; or none is here
            return (), np.empty(0)
        limits = self._limits.json
        # Of rows without numbers nobody has counted the lists.
        if array.ndim >= limits.depth or not 0 < array.size <= limits.elements * len(array):
            return (), array
        return places, array

    def answers(
        self, model: "ServedModel", found: Mapping[str, Sequence[Buffer]]
    ) -> Sequence[bytes | Problem]:
        """Returns the document that answers each row."""
        columns, ports = {}, model.outputs
        for name, buffers in found.items():
            column = column_of(buffers) if ports[name].is_batched else None
            if column is None:
                break
            columns[name] = column
        else:
            texts = rows_answers(columns)
            if texts is not None:
                return texts
        count = max(map(len, found.values()), default=0)
        return [
            _answer(ports, {name: buffers[place] for name, buffers in found.items()})
            for place in range(count)
        ]


def column_of(buffers: Sequence[Buffer]) -> npt.NDArray[Any] | None:
    """Returns what came out of an output as an array; None: it is not numbers of one shape."""
    data = []
    for buffer in buffers:
        if buffer.error is not None:
            return None
        data.append(buffer.data)
    first = data[0]
    if len(set(map(type, data))) > 1 or not isinstance(first, np.ndarray | np.generic | float):
        return None
    if isinstance(first, np.ndarray):
        for one in data:
            if one.shape != first.shape or one.dtype != first.dtype:
                return None
    return np.array(data)


def _answer(ports: Mapping[str, GraphPort], row: Mapping[str, Buffer]) -> bytes | Problem:
    """Returns the document that answers a row, or why there is none."""
    outputs = {}
    try:
        for name, buffer in row.items():
            if buffer.error is not None:
                return problem_of(buffer.error) or inside(buffer.error)
            value = values_of(ports[name], (buffer,))
            outputs[name] = value if isinstance(value, np.ndarray) else as_tensor(value)
        return predict_answer(outputs, is_row=True)
    except (Problem, ModelflowError) as error:
        return problem_of(error) or inside(error)
    except Exception as error:  # noqa: BLE001 - whatever it is, the others are answered
        return inside(error)
