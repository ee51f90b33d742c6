"""Links between replicas: every sequence of requests lives in one replica, whichever gets them.

The id of a sequence chooses the replica (`ReplicaPeers.find`). A replica that gets a request of
another one's sequence forwards the request over their link. The supervisor makes a link for each
two replicas that have told it that they have models for sequences. Both sides may ask.
"""

import asyncio
import contextlib
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from modelflow.ipc.frame import Value
from modelflow.ipc.link import Link
from modelflow.ipc.loop_queue import LoopQueue
from modelflow.ipc.shared_memory import ChannelDescriptors
from modelflow.serve.processes.rpc.model_directory import describe_model
from modelflow.serve.processes.rpc.remote_model import RemoteModel
from modelflow.serve.processes.rpc.request_server import RequestServer
from modelflow.serve.processes.rpc.rpc_client import RpcClient
from modelflow.serve.repository.models import Models
from modelflow.serve.requests.model import Model
from modelflow.wire.problem import Code, Problem

if TYPE_CHECKING:
    from modelflow.serve.requests.served_model import ServedModel

_ANSWERS = frozenset({"answer", "problem", "taken", "part", "end"})


class _NamedModels:
    """The models of this process for requests of other replicas, by name, version and signature."""

    def __init__(self, models: Models) -> None:
        self._models = models

    def find(self, key: Any) -> Model:
        name, version, signature = key
        return self._models.find(name, str(version)).with_signature(signature)

    def add(self, _: RequestServer) -> None:
        """Does nothing, because replicas do not follow the changes."""

    remove = add

    def look(self) -> None:
        """Does nothing; see `add`."""


class _PeerLink(RequestServer):
    """A link to another replica, on which both sides ask."""

    def __init__(
        self,
        number: int,
        ends: ChannelDescriptors,
        loop_queue: LoopQueue,
        models: _NamedModels,
        on_lost: "Callable[[_PeerLink], object]",
    ) -> None:
        self.number = number
        self.rpc_client = RpcClient(self._explain_loss)
        self._on_peer_lost = on_lost
        self._remote_models: dict[tuple[str, int, str], RemoteModel] = {}
        super().__init__(ends, loop_queue, models, lambda _: None)
        self.rpc_client.connect(self._link)

    def _explain_loss(self) -> Problem:
        text = (
            f"replica {self.number}, which had the sequence, has ended, and the sequence with it; "
            "begin the sequence again with sequence_start"
        )
        return Problem(text, Code.UNAVAILABLE)

    def model_of(self, own: Model) -> Model:
        """Returns the model of the other replica that equals a model of this process."""
        key = (own.name, own.version, own.signature_name)
        found = self._remote_models.get(key)
        if found is None:
            document = describe_model(own, key)
            found = self._remote_models[key] = RemoteModel(document, own.options, self.rpc_client)
        return found

    def hear(self, link: Link, message: list[Any], read: Callable[[Value], Any]) -> None:
        """Handles an answer or a request of the other replica."""
        if message[0] in _ANSWERS:
            self.rpc_client.hear(message, read)
        else:
            super().hear(link, message, read)

    def on_lost(self, link: Link) -> None:
        """Cancels the requests of the other replica, and fails the requests to the replica."""
        super().on_lost(link)
        self.rpc_client.lose()
        self._on_peer_lost(self)


class ReplicaPeers:
    """The other replicas of this server, for sequences of requests. For the server's thread.

    A `GuestServer`: the server ends after the requests that other replicas have forwarded.

    Attributes:
        number: The number of this replica, from 1.
    """

    def __init__(self, number: int, count: int, announce: Callable[[], object]) -> None:
        """Stores the replica's place.

        Args:
            number: The number of this replica, from 1.
            count: The number of replicas.
            announce: Tells the supervisor that this replica needs links. Called once.
        """
        self.number = number
        self._count = count
        self._announce: Callable[[], object] | None = announce
        self._models = Models()
        self._links: dict[int, _PeerLink] = {}

    def watch(self, models: Models) -> None:
        """Gives the models of this process the owners of their sequences."""
        self._models = models
        models.on_add = self._take

    def _take(self, model: "ServedModel") -> None:
        if model.sequence_refusal:
            return
        model.find_owner = self.find
        if self._announce is not None:
            self._announce()
            self._announce = None

    def connect(self, number: int, ends: ChannelDescriptors, loop_queue: LoopQueue) -> None:
        """Takes a link to another replica, or to its replacement."""
        models = _NamedModels(self._models)
        self._links[number] = _PeerLink(number, ends, loop_queue, models, self._on_lost)

    def find(self, model: Model, sequence: int | str) -> Model | None:
        """Returns the model of the replica that has a sequence, or None for this replica.

        Raises:
            Problem: that replica does not run now.
        """
        number = zlib.crc32(repr(sequence).encode()) % self._count + 1
        if number == self.number:
            return None
        link = self._links.get(number)
        if link is None:
            raise Problem(
                f"replica {number}, which has the sequence, does not run now; try again, and begin "
                "the sequence with sequence_start",
                Code.UNAVAILABLE,
            )
        return link.model_of(model)

    async def start(self) -> None:
        """Does nothing; see `GuestServer`."""

    async def close(self, seconds: float) -> None:
        """Waits until the requests of other replicas are answered, at most ``seconds``."""
        waits = [link.wait_until_answered() for link in self._links.values()]
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*waits), seconds)

    async def close_links(self) -> None:
        """Closes the links after all requests have ended."""
        for link in [*self._links.values()]:
            await link.close()

    def _on_lost(self, link: _PeerLink) -> None:
        if self._links.get(link.number) is link:
            del self._links[link.number]
