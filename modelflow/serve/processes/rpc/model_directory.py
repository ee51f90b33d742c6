"""The directory of models, which is sent to the workers after each change."""

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from modelflow.graph.graph_port import GraphPort
from modelflow.ipc.frame import name_of
from modelflow.ipc.loop_queue import LoopQueue
from modelflow.serve.repository.models import Models
from modelflow.serve.requests.model import Model


class DirectoryReader(Protocol):
    """A worker that receives the directory."""

    seen: int
    """The number of the last directory that the worker has seen."""

    def tell(self, number: int, document: Any, /) -> None:
        """Sends the directory to the worker."""


class ModelDirectory:
    """A directory that numbers the models. For the loop's thread.

    A model keeps its number until no worker can use the number in a request. A worker confirms a
    change after all requests that it has sent before. The order of the link guarantees that.
    """

    def __init__(self, models: Models) -> None:
        """Stores the models. `begin` starts the publishing."""
        self._models = models
        self._keys: dict[Model, int] = {}
        self._by_key: dict[int, Model] = {}
        self._known: dict[int, Any] = {}
        self._next_key = 0
        self._number = 0
        self._readers: list[DirectoryReader] = []
        self._waiting: list[tuple[int, Callable[[], object]]] = []
        self._is_due = self._is_settled = False
        self._document: dict[str, Any] = {}

    def begin(self, loop_queue: LoopQueue) -> None:
        """Starts to watch the models. Called on the thread that creates the server."""
        loop_queue.post(self._begin)

    def _begin(self) -> None:
        self._models.on_change = self._on_change
        self._models.call_when_seen = self.call_when_seen
        self._on_change()

    def settle(self) -> None:
        """Publishes that every model of the start has loaded or failed."""
        self._is_settled = True
        self._on_change()

    def find(self, key: int) -> Model:
        """Returns the model with a number."""
        return self._by_key[key]

    # -- readers ----------------------------------------------------------------------------------

    def add(self, reader: DirectoryReader) -> None:
        """Adds a worker, and sends the current directory."""
        self._readers.append(reader)
        if self._is_due or not self._number:
            self._publish()
        else:
            reader.tell(self._number, self._document)

    def remove(self, reader: DirectoryReader) -> None:
        """Removes a worker that has ended."""
        if reader in self._readers:
            self._readers.remove(reader)
            self.look()

    def call_when_seen(self, call: Callable[[], object]) -> None:
        """Calls a function when all workers have seen all changes up to now."""
        if self._is_due:
            self._publish()
        self._waiting.append((self._number, call))
        self.look()

    def look(self) -> None:
        """Calls the functions whose changes all workers have seen."""
        seen = min((reader.seen for reader in self._readers), default=self._number)
        due = [call for number, call in self._waiting if number <= seen]
        self._waiting = [one for one in self._waiting if one[0] > seen]
        for call in due:
            call()

    # -- publishing -------------------------------------------------------------------------------

    def _on_change(self) -> None:
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._publish_if_due)

    def _publish_if_due(self) -> None:
        if self._is_due:
            self._publish()

    def _publish(self) -> None:
        self._is_due = False
        self._number += 1
        models = [one for model in self._models for one in model.all_signatures()]
        for model in models:
            if model not in self._keys:
                self._next_key += 1
                self._keys[model], self._by_key[self._next_key] = self._next_key, model
        for model in self._models:
            if self._keys[model] not in self._known:
                self._known[self._keys[model]] = self._describe(model)
        self._document = {
            "is_settled": self._is_settled,
            "entries": self._models.document(self._keys.__getitem__),
            "models": [self._known[self._keys[model]] for model in self._models],
        }
        for reader in self._readers:
            reader.tell(self._number, self._document)
        gone = self._keys.keys() - set(models)
        if gone:
            self._waiting.append((self._number, lambda: self._drop(gone)))
            self.look()

    def _drop(self, gone: set[Model]) -> None:
        for model in gone:
            key = self._keys.pop(model, 0)
            self._by_key.pop(key, None)
            self._known.pop(key, None)

    def _describe(self, model: Model) -> dict[str, Any]:
        own = self._keys[model]
        others = [one for one in model.all_signatures() if self._keys[one] != own]
        return {**describe_model(model, own), "others": [*map(self._describe, others)]}


def describe_model(model: Model, key: object) -> dict[str, Any]:
    """Returns the facts about one signature of a model, for a `RemoteModel` in another process.

    Args:
        model: The signature.
        key: The value by which requests name the signature.
    """
    batching = model.batching
    return {
        "key": key,
        "name": model.name,
        "version": model.version,
        "signature_name": model.signature_name,
        "method": model.method,
        "tensor_names": dict(model.tensor_names),
        "tuning": dict(model.tuning),
        "parameters": list(model.parameters),
        "sequence_refusal": model.sequence_refusal,
        "batching": [batching.most, batching.sizes, batching.seconds],
        "inputs": [_port(port) for port in model.signature.inputs],
        "outputs": [_port(port) for port in model.signature.outputs],
        "others": [],
    }


def _port(port: GraphPort) -> list[Any]:
    tensor = port.tensor
    return [
        port.name,
        port.description,
        None
        if tensor is None
        else [
            tensor.name,
            name_of(tensor.dtype),
            tensor.shape,
            tensor.is_batched,
            tensor.is_shape_checked,
        ],
        port.is_single,
        port.is_batched,
        port.labels,
        port.format,
    ]
