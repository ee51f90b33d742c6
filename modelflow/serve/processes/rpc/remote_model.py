"""A model in another process, with the same interface as a model in this process."""

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
    """A request to a model in another process. A `modelflow.serve.requests.model.Inference`."""

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
        """Creates a request of the model. The `RpcClient` sets the number."""
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
        """Ends the request with an error for the waiting client; see `TimeLimit`."""
        self._rpc_client.cancel(self)
        self.on_failure(problem)

    # -- messages of the other process ------------------------------------------------------------

    def on_answer(self, found: Mapping[str, Any]) -> None:
        """Stores the answer. Drops an answer that arrives after the end of the request."""
        if self.is_ended:
            return
        self._found = found
        self._end()
        self._done(self)

    def on_failure(self, problem: Problem) -> None:
        """Stores the error, and ends the request."""
        if self.is_ended:  # given up earlier
            return
        self._problem = problem
        self._end()
        if not self._tell(problem):
            self._done(self)

    def on_admitted(self) -> None:
        """Notes that the other process has admitted the stream."""
        self._is_taken = True
        self._tell(None)

    def came(self, name: str, data: Any, is_last: bool) -> None:
        """Stores a part of a stream."""
        if self.is_ended:
            return
        self._is_asking = False
        self._parts.append((name, Buffer(data), is_last))
        self.model.time_limit.renew(self)
        self._done(self)

    def on_end(self) -> None:
        """Notes the end of a stream."""
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

    # -- for the caller ---------------------------------------------------------------------------

    def call_when_taken(self, told: Callable[[Problem | None], object]) -> None:
        """Calls ``told``, now or later, with None or the reason for a refusal."""
        self._told = told
        if self._is_taken or self._problem is not None:
            self._tell(self._problem)

    def cancel(self) -> None:
        """Cancels the request, because its client no longer waits."""
        if not self.is_ended:
            self._rpc_client.cancel(self)

    def part(self) -> tuple[str, Buffer] | None:
        """Returns the next buffer of a stream, with its output's name, or None if none is ready.

        Raises:
            EndOfStream: the stream has no more buffers.
            Problem: the request, or one of its items, failed. The request is over then.
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
        """Returns the result buffers of each output, for a request of items.

        Raises:
            Problem: the request, or one of its items, failed.
        """
        return {name: [*map(Buffer, data)] for name, data in self.outputs().items()}

    def outputs(self) -> Mapping[str, npt.NDArray[Any] | list[Any]]:
        """Returns the result values of each output, for a request of arrays.

        Raises:
            Problem: the request, or one of its items, failed.
        """
        if self._problem is not None:
            raise self._problem
        return self._found


class RemoteModel(Model):
    """A model in another process."""

    def __init__(
        self, document: Mapping[str, Any], options: ServeOptions, rpc_client: "RpcClient"
    ) -> None:
        """Reads the model's entry of the `ModelDirectory`, and stores the client for requests."""
        signature = Signature(
            tuple(map(_port, document["inputs"])), tuple(map(_port, document["outputs"]))
        )
        super().__init__(document["name"], document["version"], signature, options)
        most, sizes, seconds = document["batching"]
        self._batching = Batching(most, tuple(sizes), seconds)
        self.signature_name = document["signature_name"]
        self.method = document["method"]
        self.tensor_names = document["tensor_names"]
        self.tuning = document["tuning"]
        others = (RemoteModel(one, options, rpc_client) for one in document["others"])
        self.others = {one.signature_name: one for one in others}
        self.parameters = document["parameters"]
        self.sequence_refusal = document["sequence_refusal"]
        self._key: Any = document["key"]
        self._rpc_client = rpc_client

    @property
    def batching(self) -> Batching:
        """The batching parameters of the model."""
        return self._batching

    def expect(self, deadline: float | None, *, is_first: bool = False) -> None:
        """Refuses no request, because only the other process knows whether the model has room."""

    def infer(
        self,
        arrays: Mapping[str, npt.NDArray[Any]],
        done: Callable[[Inference], None],
        terms: Terms = NO_TERMS,
    ) -> RemoteCall:
        """Sends a request with an array for each input.

        Raises:
            Problem: the arrays do not fit the model's inputs, or the other process has ended.
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
        rows = max(1, call.rows)
        context = None if observer is None else observer.enter(self.name, self.version, rows)
        deadline, _, is_stream, is_first, step, parameters = terms
        further = None
        if is_first or step is not None or parameters:
            further = (is_first, None if step is None else [*step], parameters)
        send(call, self._key, values, (deadline, context, is_stream, further))
        self.time_limit.add(call, terms.deadline)
        return call


def _port(document: Sequence[Any]) -> GraphPort:
    name, description, found, is_single, is_batched, labels, form = document
    tensor = None
    if found is not None:
        own, dtype, shape, *flags = found
        tensor = TensorSpec(own, dtype_of(dtype), None if shape is None else tuple(shape), *flags)
    given = (tensor, is_single, is_batched, tuple(labels))
    return GraphPort(name, description, *given, format=form)
