"""The response cache of a model: equal inputs get the stored outputs, without a call of the graph.

The key is a hash of the inputs, their types and shapes, the signature and the parameters. Each
version has a cache of its own, so a new version never gives the answers of an old one. Only whole
answers without an error are stored. Streams and sequences are never stored.
"""

import asyncio
import pickle
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from modelflow.buffer import Buffer
from modelflow.serve.requests.infer_request import InferCall
from modelflow.serve.requests.model import Inference
from modelflow.stream_io.request import Request
from modelflow.stream_io.steps import StepRequest

_ENTRY_BYTES = 500  # about what the key and the objects of an entry take besides their data


class ResponseCache:
    """The stored answers of a model's version, the least recently used first. For one thread."""

    def __init__(self, size: int) -> None:
        """Sets the largest size of all answers, in bytes."""
        self._size = size
        self._used = 0
        self._entries: OrderedDict[bytes, tuple[int, Mapping[str, Sequence[Any]]]] = OrderedDict()

    def find(self, key: bytes) -> Mapping[str, Sequence[Any]] | None:
        """Returns the data of the buffers of each output, or None if no answer is stored."""
        found = self._entries.get(key)
        if found is None:
            return None
        self._entries.move_to_end(key)
        return found[1]

    def store(self, key: bytes, found: Mapping[str, Sequence[Buffer]]) -> None:
        """Stores an answer, and drops the least recently used answers beyond the size.

        Values are copied, because a row of a batch would keep the whole batch, and because a unit
        may change a value later. An answer with a value that cannot be copied is not stored.
        """
        try:
            copies = {name: [_copy(buffer.data) for buffer in found[name]] for name in found}
        except (pickle.PicklingError, TypeError, AttributeError, RecursionError):
            return
        size = _ENTRY_BYTES + sum(one for column in copies.values() for _, one in column)
        if size > self._size:
            return
        data = {name: [value for value, _ in column] for name, column in copies.items()}
        self._used += size - self._entries.pop(key, (0, {}))[0]
        self._entries[key] = size, data
        while self._used > self._size:
            self._used -= self._entries.popitem(last=False)[1][0]


class CachedCall(InferCall):
    """A request whose answer was stored. It takes no room in the model."""

    def __init__(
        self,
        call: InferCall,
        items: Mapping[str, Sequence[Any]],
        done: Callable[[Inference], None],
        found: Mapping[str, Sequence[Any]],
    ) -> None:
        """Ends the request after this turn of the event loop; see `InferCall`.

        Args:
            call: The request that would need the graph.
            items: The items of each input.
            done: Called when the answer is ready.
            found: The stored data of the buffers of each output.
        """
        super().__init__(call.model, items, done)
        self.figures = call.figures
        step = StepRequest(items, self._over)
        self.request = step
        step.on_result({name: [*map(Buffer, column)] for name, column in found.items()})

    def _over(self, _: Request) -> None:
        asyncio.get_running_loop().call_soon(self.done, self)

    def cancel(self) -> None:
        """Does nothing, because the answer is ready."""


def _copy(data: Any) -> tuple[Any, int]:
    """Returns a copy of a value, and its size in bytes."""
    if isinstance(data, np.ndarray) and data.dtype != object:
        copied = data.copy()
        copied.flags.writeable = False
        return copied, copied.nbytes
    if isinstance(data, bytes | bytearray | memoryview):
        whole = bytes(data)
        return whole, len(whole)
    pickled = pickle.dumps(data)
    return pickle.loads(pickled), len(pickled)
