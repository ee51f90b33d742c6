"""A model that another process runs, and the requests to it: as those of one that runs here."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from modelflow.buffer import Buffer
from modelflow.errors import EndOfStream
from modelflow.graph.graph_port import GraphPort, Signature
from modelflow.ipc.frame import dtype_of
from modelflow.serve.options import ServeOptions
from modelflow.serve.requests.model import NO_TERMS, Batching, Inference, Model, Terms
from modelflow.serve.requests.rows import rows_of
from modelflow.wire.problem import Problem
from modelflow.wire.tensor import TensorSpec

if TYPE_CHECKING:
    from modelflow.serve.processes.rpc.rpc_client import RpcClient


class RemoteCall:
    """A request that another process works on. A `modelflow.serve.requests.model.Inference`."""

    __slots__ = (
        "_done",
        "_found",
        "_is_asking",
        "_is_taken",
        "_parts",
        "_problem",
        "_rpc_client",
        "_told",
        "is_drained",
        "is_ended",
        "model",
        "number",
        "rows",
    )

    def __init__(
        self,
        model: "RemoteModel",
        rows: int,
        done: Callable[[Inference], None],
        rpc_client: "RpcClient",
    ) -> None:
        """Made by the model; the client gives it its number."""
        self.model = model
        self.rows = rows
        self.number = 0
        self.is_drained = self.is_ended = False
        self._done = done
        self._rpc_client = rpc_client
        self._problem: Problem | None = None
        self._found: Mapping[str, Any] = {}
        self._parts: deque[tuple[str, Buffer, bool]] = deque()
        self._told: Callable[[Problem | None], object] | None = None
        self._is_taken = self._is_asking = False

    def give_up(self, problem: Problem) -> None:
        """Ends it without the answer that somebody still waits for; see `TimeLimit`."""
        self._rpc_client.cancel(self)
        self.on_failure(problem)

    # -- what the other process says --------------------------------------------------------------

    def on_answer(self, found: Mapping[str, Any]) -> None:
        """Takes the answer; one that comes when it was given up is dropped."""
        if self.is_ended:
            return
        self._found = found
        self._end()
        self._done(self)

    def on_failure(self, problem: Problem) -> None:
        """Takes why there is none."""
        if self.is_ended:  # it was given up
            return
        self._problem = problem
        self._end()
        if not self._tell(problem):
            self._done(self)

    def on_admitted(self) -> None:
        """Takes note that a stream begins."""
        self._is_taken = True
        self._tell(None)

    def came(self, name: str, data: Any, is_last: bool) -> None:
        """Takes a part of a stream."""
        if self.is_ended:
            return
        self._is_asking = False
        self._parts.append((name, Buffer(data), is_last))
        self.model.time_limit.renew(self)
        self._done(self)

    def on_end(self) -> None:
        """Takes note that no further part comes."""
        if self.is_ended:
            return
        self._end()
        self._done(self)

    def _end(self) -> None:
        self.is_ended = True
        self.model.time_limit.forget(self)

    def _tell(self, problem: Problem | None) -> bool:
        told, self._told = self._told, None
        if told is not None:
            told(problem)
        return told is not None

    # -- what is asked of it ----------------------------------------------------------------------

    def call_when_taken(self, told: Callable[[Problem | None], object]) -> None:
        """Has somebody told, now or later, that it was taken, or why it was not."""
        self._told = told
        if self._is_taken or self._problem is not None:
            self._tell(self._problem)

    def cancel(self) -> None:
        """Ends it: nobody waits for the answer any more."""
        if not self.is_ended:
            self._rpc_client.cancel(self)

    def part(self) -> tuple[str, Buffer] | None:
        """Returns the next buffer of a stream, with its output's name; None: there is none now.

        Raises:
            EndOfStream: that was all.
            Problem: the request, or one of its items, failed. It is over then.
        """
        if self._parts:
            name, buffer, self.is_drained = self._parts.popleft()
            return name, buffer
        if self._problem is not None:
            raise self._problem
        if self.is_ended:
            raise EndOfStream("everything has come out")
        if not self._is_asking:
            self._is_asking = True
            self._rpc_client.ask_more(self)
        return None

    def buffers(self) -> dict[str, list[Buffer]]:
        """Returns what came out of each output, of a request of items.

        Raises:
            Problem: the request, or one of its items, failed.
        """
        return {name: [*map(Buffer, data)] for name, data in self.outputs().items()}

    def outputs(self) -> Mapping[str, npt.NDArray[Any] | list[Any]]:
        """Returns what came out of each output, of a request of arrays.

        Raises:
            Problem: the request, or one of its items, failed.
        """
        if self._problem is not None:
            raise self._problem
        return self._found


class RemoteModel(Model):
    """A model that another process runs."""

    def __init__(
        self, document: Mapping[str, Any], options: ServeOptions, rpc_client: "RpcClient"
    ) -> None:
        """Takes what `ModelDirectory` says of it, and who brings requests to it."""
        signature = Signature(
            tuple(map(_port, document["inputs"])), tuple(map(_port, document["outputs"]))
        )
        super().__init__(document["name"], document["version"], signature, options)
        most, sizes, seconds = document["batching"]
        self._batching = Batching(most, tuple(sizes), seconds)
        self.signature_name = document["signature_name"]
        self.method = document["method"]
        self.tensor_names = document["tensor_names"]
        others = (RemoteModel(one, options, rpc_client) for one in document["others"])
        self.others = {one.signature_name: one for one in others}
        self._key: int = document["key"]
        self._rpc_client = rpc_client

    @property
    def batching(self) -> Batching:
        """How it gathers items into calls."""
        return self._batching

    def expect(self, deadline: float | None) -> None:
        """Refuses nothing: whether there is room only the other process knows."""

    def infer(
        self,
        arrays: Mapping[str, npt.NDArray[Any]],
        done: Callable[[Inference], None],
        terms: Terms = NO_TERMS,
    ) -> RemoteCall:
        """Sends a request of arrays, one for each input.

        Raises:
            Problem: they do not fit the model's inputs, or the other process has ended.
        """
        for name, array in arrays.items():
            self.options.check_elements(array.size, f"input {name!r}")
        call = RemoteCall(self, rows_of(self.signature, arrays), done, self._rpc_client)
        return self._ask(self._rpc_client.infer, call, arrays, terms)

    def send(
        self,
        items: Mapping[str, Sequence[Any]],
        done: Callable[[Inference], None],
        terms: Terms = NO_TERMS,
    ) -> RemoteCall:
        """Sends a request of items; see `infer`."""
        rows = max(map(len, items.values()), default=0)
        call = RemoteCall(self, rows, done, self._rpc_client)
        return self._ask(self._rpc_client.send, call, items, terms)

    def _ask(
        self, send: Callable[..., None], call: RemoteCall, values: Mapping[str, Any], terms: Terms
    ) -> RemoteCall:
        observer = terms.context
        context = None if observer is None else observer.enter(self.name, self.version)
        send(call, self._key, values, (terms.deadline, context, terms.is_stream))
        self.time_limit.add(call, terms.deadline)
        return call


def _port(document: Sequence[Any]) -> GraphPort:
    name, description, found, is_single, is_batched, labels = document
    tensor = None
    if found is not None:
        own, dtype, shape, *flags = found
        tensor = TensorSpec(own, dtype_of(dtype), None if shape is None else tuple(shape), *flags)
    return GraphPort(name, description, tensor, is_single, is_batched, tuple(labels))
