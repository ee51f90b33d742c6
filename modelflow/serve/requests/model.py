"""The interface of a model to the request readers, for models in this process or another."""

import abc
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

import numpy.typing as npt

from modelflow.graph.graph_port import GraphPort, Signature
from modelflow.http.request import RequestObserver
from modelflow.serve.metrics.snapshot import model_node
from modelflow.serve.options import UNTUNED, ServeOptions, Tuning
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
    """The batching parameters of the node whose calls count as the calls of the model.

    Attributes:
        most: The largest number of items in a call.
        sizes: The allowed numbers of items in a call. Empty if any number is allowed.
        seconds: How long the node waits for more items before a call.
    """

    most: int
    sizes: tuple[int, ...]
    seconds: float

    @classmethod
    def of(cls, flow: "Flow") -> "Batching":
        """Returns the batching parameters of a running flow."""
        node = model_node(flow.stats().values())
        stage = flow.scheduler.plan.nodes[node.node]
        sizes = tuple(stage.unit.allowed_batch_sizes)
        return cls(stage.batch_size, sizes, stage.batch_timeout)


class SequenceStep(NamedTuple):
    """The place of a request in a sequence of requests that share the state of a model.

    Attributes:
        id: The client's name of the sequence: a positive integer or a text.
        is_start: The request begins the sequence.
        is_end: The request is the last of the sequence.
    """

    id: int | str
    is_start: bool
    is_end: bool


class Terms(NamedTuple):
    """The parameters of a request besides its values.

    Attributes:
        deadline: Seconds from now until the client stops waiting. None if the client sets no limit.
        context: The observer of the request. The session gets the context that its `enter` returns.
        is_stream: The caller takes the answer part by part with `Inference.part`.
        is_first: The request is of the first class, which overtakes all others.
        sequence: The place of the request in a sequence. None if it belongs to none.
        parameters: The values that units find in the session's context under ``parameters``.
    """

    deadline: float | None = None
    context: RequestObserver | None = None
    is_stream: bool = False
    is_first: bool = False
    sequence: SequenceStep | None = None
    parameters: Mapping[str, Any] | None = None


SHADOW = "shadow"
"""The key of the session's context that marks a copy for a shadow version."""

NO_TERMS = Terms()
"""The parameters of a request that has only values."""


class Inference(Protocol):
    """A request under way; see `infer_request.InferCall`. For the server's thread."""

    @property
    def model(self) -> "Model":
        """The model of the request."""

    @property
    def rows(self) -> int:
        """The number of items in the request."""

    @property
    def is_drained(self) -> bool:
        """Tells whether `part` has returned every buffer of a stream that has ended."""

    def call_when_taken(self, told: Callable[[Problem | None], object]) -> None:
        """Calls ``told``, now or later, with None or the reason for a refusal."""

    def cancel(self) -> None:
        """Cancels the request, because its client no longer waits."""

    def part(self) -> "tuple[str, Buffer] | None":
        """Returns the next buffer of a stream, with its output's name, or None if none is ready.

        Raises:
            EndOfStream: the stream has no more buffers.
            Problem: the request, or one of its items, failed. The request is over then.
        """

    def buffers(self) -> "Mapping[str, list[Buffer]]":
        """Returns the result buffers of each output, for a request of items.

        Raises:
            Problem: the request, or one of its items, failed.
        """

    def outputs(self) -> Mapping[str, npt.NDArray[Any] | list[Any]]:
        """Returns the result values of each output, for a request of arrays.

        Raises:
            Problem: the request, or one of its items, failed.
        """


class Model(abc.ABC):
    """A version of a model, or a single signature of the version.

    Attributes:
        name: The model's name in requests.
        version: The version number.
        signature: The inputs and outputs.
        types: The element types of the inputs, by name. None for an input that accepts any type.
        outputs: The output ports, by name.
        options: The limits on requests.
        time_limit: Gives up requests that have no answer in time.
        signature_name: The name of this signature.
        method: The method: predict, classify or regress (TensorFlow Serving's names).
        tensor_names: The names of the tensors in the model's file, by port name, if known.
        others: The other signatures of the model, by name.
        tuning: The settings of a client that differ from the model's files.
        pending: The short requests that are not decoded yet. None if requests are decoded one by
            one.
        parameters: The request parameters that the model's units read.
        sequence_refusal: The reason why the model takes no sequences of requests. Empty if it does.
    """

    def __init__(
        self, name: str, version: int, signature: Signature, options: ServeOptions
    ) -> None:
        """Stores the attributes that all models share.

        The model has one signature until `others` is set.
        """
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
        self.tuning: Tuning = UNTUNED
        self.parameters: Collection[str] = ()
        self.sequence_refusal = ""

    @property
    @abc.abstractmethod
    def batching(self) -> Batching:
        """The batching parameters of the model."""

    def all_signatures(self) -> list[Self]:
        """Returns this signature and the other signatures of the model."""
        return [self, *self.others.values()]

    def with_signature(self, name: str) -> Self:
        """Returns the model object of a signature. An empty name means the default signature.

        Raises:
            Problem: the model has no signature of that name.
        """
        wanted = name or DEFAULT_SIGNATURE
        if wanted == self.signature_name or not (name or self.others):
            return self
        found: Self | None = self.others.get(wanted)
        if found is None:
            raise no_signature(wanted, [self.signature_name, *self.others])
        return found

    def on_shadow_refused(self, error: Exception) -> None:  # noqa: B027 - for the model's process
        """Counts a copy for a shadow version that was refused, in the process of the model."""

    @abc.abstractmethod
    def expect(self, deadline: float | None, *, is_first: bool = False) -> None:
        """Refuses a request that `send` would refuse, before the request is decoded.

        Args:
            deadline: Seconds for which the client waits. None if the client sets no limit.
            is_first: The request is or may be of the first class.

        Raises:
            Problem: the model has no room for the request.
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
            arrays: An array for each input.
            done: Called on this thread when the answer is ready. For a stream, called for each
                part.
            terms: The parameters of the request.

        Raises:
            Problem: the arrays do not fit the signature, or the model has no room. A model may
                also
            report this through ``done``.
        """

    @abc.abstractmethod
    def send(
        self,
        items: Mapping[str, Sequence[Any]],
        done: Callable[[Inference], None],
        terms: Terms = NO_TERMS,
    ) -> Inference:
        """Sends a request of items; see `infer`."""
