"""A model as everything that reads requests sees it: here, or in another process."""

import abc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

import numpy.typing as npt

from modelflow.graph.graph_port import GraphPort, Signature
from modelflow.http.request import RequestObserver
from modelflow.serve.metrics.snapshot import model_node
from modelflow.serve.options import ServeOptions
from modelflow.serve.requests.time_limits import TimeLimit
from modelflow.wire.problem import Problem, no_signature
from modelflow.wire.tf_serving.documents import DEFAULT_SIGNATURE, PREDICT_METHOD

if TYPE_CHECKING:
    from modelflow.buffer import Buffer
    from modelflow.flow import Flow
    from modelflow.serve.requests.pending import PendingRequests
    from modelflow.wire.tf_serving.predict import Types


@dataclass(frozen=True, slots=True)
class Batching:
    """What the node of a graph does whose calls count as the model's.

    Attributes:
        most: Items that one call takes.
        sizes: The numbers of items that calls may have; nothing: any.
        seconds: How long it waits for more.
    """

    most: int
    sizes: tuple[int, ...]
    seconds: float

    @classmethod
    def of(cls, flow: "Flow") -> "Batching":
        """Takes it of a flow that runs."""
        node = model_node(flow.stats().values())
        stage = flow.scheduler.plan.nodes[node.node]
        sizes = tuple(stage.unit.allowed_batch_sizes)
        return cls(stage.batch_size, sizes, stage.batch_timeout)


class Terms(NamedTuple):
    """What a request says beside its values.

    Attributes:
        deadline: Seconds from now after which nobody waits for the answer; None: for ever.
        context: What is noted of the request; its session is told of it.
        is_stream: The answer is taken part by part; see `Inference.part`.
    """

    deadline: float | None = None
    context: RequestObserver | None = None
    is_stream: bool = False


NO_TERMS = Terms()
"""Of a request that says nothing but its values."""


class Inference(Protocol):
    """A request on its way; see `infer_request.InferCall`. For the server's thread."""

    @property
    def model(self) -> "Model":
        """What is asked."""

    @property
    def rows(self) -> int:
        """How many items it has."""

    @property
    def is_drained(self) -> bool:
        """Tells of a stream whether `part` has given everything, as far as is known now."""

    def call_when_taken(self, told: Callable[[Problem | None], object]) -> None:
        """Has somebody told, now or later, that it was taken, or why it was not."""

    def cancel(self) -> None:
        """Ends it: nobody waits for the answer any more."""

    def part(self) -> "tuple[str, Buffer] | None":
        """Returns the next buffer of a stream, with its output's name; None: there is none now.

        Raises:
            EndOfStream: that was all.
            Problem: the request, or one of its items, failed. It is over then.
        """

    def buffers(self) -> "Mapping[str, list[Buffer]]":
        """Returns what came out of each output, of a request of items.

        Raises:
            Problem: the request, or one of its items, failed.
        """

    def outputs(self) -> Mapping[str, npt.NDArray[Any] | list[Any]]:
        """Returns what came out of each output, of a request of arrays.

        Raises:
            Problem: the request, or one of its items, failed.
        """


class Model(abc.ABC):
    """A version of a model, or one of its signatures.

    Attributes:
        name: What clients call it.
        version: Which version of that it is.
        signature: What it takes and gives.
        types: The element types of its inputs, by name; None: it takes what comes.
        outputs: Its outputs, by name.
        options: What it takes.
        time_limit: What gives up requests that have no answer in time.
        signature_name: Which of the model's signatures it is.
        method: What that is for: predict, classify, regress (TensorFlow Serving's names).
        tensor_names: What the model's file calls the tensors of its ports, as far as it does.
        others: The model's further signatures, by name.
        pending: Its short requests that nobody has read yet; None: each is read by itself.
    """

    def __init__(
        self, name: str, version: int, signature: Signature, options: ServeOptions
    ) -> None:
        """Takes what every model has; it has one signature, until another is told."""
        self.name = name
        self.version = version
        self.signature = signature
        self.types: Types = {
            port.name: None if port.tensor is None else port.tensor.dtype
            for port in signature.inputs
        }
        self.outputs: Mapping[str, GraphPort] = {port.name: port for port in signature.outputs}
        self.options = options
        self.time_limit = TimeLimit(options.request_timeout)
        self.signature_name = DEFAULT_SIGNATURE
        self.method = PREDICT_METHOD
        self.tensor_names: Mapping[str, str] = {}
        self.others: Mapping[str, Any] = {}
        self.pending: PendingRequests | None = None

    @property
    @abc.abstractmethod
    def batching(self) -> Batching:
        """How it gathers items into calls."""

    def all_signatures(self) -> list[Self]:
        """Returns itself and its further signatures."""
        return [self, *self.others.values()]

    def with_signature(self, name: str) -> Self:
        """Returns what answers for one of its signatures; empty: for the default one.

        Raises:
            Problem: it has none of that name.
        """
        wanted = name or DEFAULT_SIGNATURE
        if wanted == self.signature_name or not (name or self.others):
            return self
        found: Self | None = self.others.get(wanted)
        if found is None:
            raise no_signature(wanted, [self.signature_name, *self.others])
        return found

    @abc.abstractmethod
    def expect(self, deadline: float | None) -> None:
        """Refuses what `send` would refuse, as far as that is known before the request is read.

        Raises:
            Problem: there is no room for it.
        """

    @abc.abstractmethod
    def infer(
        self,
        arrays: Mapping[str, npt.NDArray[Any]],
        done: Callable[[Inference], None],
        terms: Terms = NO_TERMS,
    ) -> Inference:
        """Sends a request.

        Args:
            arrays: One for each input.
            done: Called on this thread when it has an answer; of a stream, whenever it has a part.
            terms: What it says beside.

        Raises:
            Problem: it does not fit, or there is no room for it; or it is told so by ``done``.
        """

    @abc.abstractmethod
    def send(
        self,
        items: Mapping[str, Sequence[Any]],
        done: Callable[[Inference], None],
        terms: Terms = NO_TERMS,
    ) -> Inference:
        """Sends a request of items; see `infer`."""
