"""A model as everything that reads requests sees it: here, or in another process."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy.typing as npt

from modelflow.graph.graph_port import GraphPort, Signature
from modelflow.http.request import RequestObserver
from modelflow.serve.metrics.statistics import model_node
from modelflow.serve.options import ServeOptions
from modelflow.wire.problem import Problem, no_signature
from modelflow.wire.tf_serving.documents import DEFAULT_SIGNATURE

if TYPE_CHECKING:
    from modelflow.buffer import Buffer
    from modelflow.flow import Flow
    from modelflow.serve.requests.pending import Responder, RowReader
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
        stage = flow.plan.nodes[node.node]
        sizes = tuple(stage.unit.allowed_batch_sizes)
        return cls(stage.batch_size, sizes, stage.batch_timeout)


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


M = TypeVar("M", bound="Model")


def with_signature(model: M, others: Mapping[str, M], name: str) -> M:
    """Returns which of a model's signatures answers; see `Model.with_signature`.

    Args:
        model: The model itself, which is one of them.
        others: Those beside it, by name.
        name: Which is asked for.

    Raises:
        Problem: it has none of that name.
    """
    wanted = name or DEFAULT_SIGNATURE
    if wanted == model.signature_name or not (name or others):
        return model
    if wanted in others:
        return others[wanted]
    raise no_signature(wanted, [model.signature_name, *others])


class Model(Protocol):
    """A version of a model; see `modelflow.serve.requests.served_model.ServedModel`."""

    name: str
    version: int
    signature: Signature
    types: "Types"
    outputs: Mapping[str, GraphPort]
    options: ServeOptions
    signature_name: str
    method: str
    tensor_names: Mapping[str, str]

    @property
    def batching(self) -> Batching:
        """How it gathers items into calls."""

    def all_signatures(self) -> "Sequence[Model]":
        """Returns itself and its further signatures."""

    def with_signature(self, name: str) -> "Model":
        """Returns what answers for one of its signatures; empty: for the default one.

        Raises:
            Problem: it has none of that name.
        """

    def expect(self, deadline: float | None) -> None:
        """Refuses what `send` would refuse, as far as that is known before the request is read.

        Raises:
            Problem: there is no room for it.
        """

    def receive(self, requests: "Sequence[Responder]", reader: "RowReader") -> None:
        """Takes small requests that have come together, and answers each, now or later.

        Args:
            requests: None has a context, or says how long it may take.
            reader: What reads them, and writes their answers.
        """

    def infer(
        self,
        arrays: Mapping[str, npt.NDArray[Any]],
        done: Callable[[Inference], None],
        deadline: float | None = None,
        request_context: RequestObserver | None = None,
        *,
        is_stream: bool = False,
    ) -> Inference:
        """Sends a request of arrays, one for each input.

        Raises:
            Problem: it does not fit, or there is no room for it; or it is told so by ``done``.
        """

    def send(
        self,
        items: Mapping[str, Sequence[Any]],
        done: Callable[[Inference], None],
        deadline: float | None = None,
        request_context: RequestObserver | None = None,
        *,
        is_stream: bool = False,
    ) -> Inference:
        """Sends a request of items; see `infer`."""
