"""Runs a graph in a session: frozen, or with the variables and tables of a SavedModel.

A session's callable costs about a fifth of a concrete function's call (28 against 150 us for a
small network). It reads aligned NumPy arrays without a copy. In a frozen graph it also folds the
constants of the weights (25 % on ResNet-50 with one image).
"""

import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy.typing as npt

from modelflow.engine.engine import Arrays, LoadedModel, model_error, refuse_closed
from modelflow.engine.tensorflow.library import load_tensorflow
from modelflow.engine.tensorflow.runners.inlined import inline_calls
from modelflow.engine.tensorflow.runners.placed_graph import PlacedGraph
from modelflow.errors import EngineError, ItemRefusedError
from modelflow.wire.tensor import has_shape

# The most combinations of input ranks that are tried, in addition to the signature's.
_MOST_RANKS = 16
# Two numbers of rows that are unlikely to be both the length of an axis by chance.
_PROVED_SIZES = (5, 7)
_LISTING = ("Graph execution error:", "Detected at node", "[[")
# Exceptions of an operation for values that it does not take.
_OF_INPUTS = ("InvalidArgumentError", "OutOfRangeError")
_FUNCTION = re.compile(r"^(\{\{function_node .*?\}\} )+")


class SessionModel(LoadedModel):
    """A graph on one device, with inputs and outputs as arrays on the host.

    Attributes:
        is_copying: Whether results are copied, because their memory may be that of a variable,
            which later calls overwrite.
    """

    is_copying = False
    keeps_outputs = False

    def __init__(
        self, placed: PlacedGraph, session: Any = None, release: Callable[[], None] | None = None
    ) -> None:
        """Makes a session, unless the caller passes a session of the graph with its variables.

        Args:
            placed: The graph.
            session: The session.
            release: Returns the session to its owner. None if the model closes the session.
        """
        tf = load_tensorflow()
        self._path = placed.path
        self._errors = tf.errors
        self.inputs, self.outputs = placed.inputs, placed.outputs
        # Two ports may have the same tensor, and a fed tensor cannot be fetched.
        with placed.graph.as_default():
            ways = {fetch.name: tf.identity(fetch).name for fetch in placed.fetches}
        self._feeds = tuple(spec.name for spec in placed.inputs)
        self._fetches = tuple(
            (spec.name, list(ways).index(fetch.name))
            for spec, fetch in zip(placed.outputs, placed.fetches, strict=True)
        )
        if session is None:
            config = tf.compat.v1.ConfigProto()
            if placed.is_compiled:
                config.graph_options.optimizer_options.global_jit_level = 1
            session = tf.compat.v1.Session(graph=placed.graph, config=config)
        self._session = session
        self._release = release or session.close
        feeds = [tensor.name for tensor in placed.feeds]
        self._call = _callable(session, feeds, list(ways.values()))
        self._other_ranks: OtherRanks | None = None
        self._rank_free: frozenset[str] = frozenset()

    def accept_other_shapes(
        self, placed: PlacedGraph, graph_def: Any, *, is_constant: bool
    ) -> None:
        """Allows values of other shapes than the inputs', if the graph accepts them.

        Args:
            placed: The graph of this model.
            graph_def: The result of `make_plain` for that graph.
            is_constant: Whether the graph has no variables and can therefore be imported again.
        """
        if graph_def is not None:
            self._other_ranks = OtherRanks(self, placed, graph_def, is_constant)
            self.inputs = tuple(replace(spec, is_shape_checked=False) for spec in self.inputs)

    def accept_scalars(self) -> None:
        """Passes a value without axes unchanged, if the graph leaves the number of axes open.

        For models that are called with one item at a time.
        """
        self._rank_free = frozenset(spec.name for spec in self.inputs if spec.shape is None)

    def run(self, inputs: Arrays) -> dict[str, npt.NDArray[Any]]:
        """Runs one batch; see `LoadedModel.run`."""
        if self._other_ranks is not None:
            other = self._other_ranks.model_for(inputs)
            if other is not self:
                return other.run(inputs)
        if self._rank_free:
            inputs = {port: self._without_axis(port, array) for port, array in inputs.items()}
        try:
            values = self._call(*[inputs[port] for port in self._feeds])
        except self._errors.OpError as error:
            raise engine_error(self._path, error) from error
        if self.is_copying:
            values = [value.copy() for value in values]
        return {port: values[place] for port, place in self._fetches}

    def _without_axis(self, port: str, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        # An item without axes arrives as a batch of one: 3.0 as [3.0].
        return array[0, ...] if port in self._rank_free and array.shape == (1,) else array

    def close(self) -> None:
        """Frees the session and the weights, unless another model uses them, too."""
        self._call = refuse_closed
        self._release()
        if self._other_ranks is not None:
            self._other_ranks.close()


class OtherRanks:
    """A model's graph for values of other ranks than the signature's: ``[1.0, 2.0]`` for (?, 1).

    At the import TensorFlow proves whether the operations take such values. This is necessary: some
    kernels end the process if a value has fewer axes than the graph was made for.
    """

    def __init__(
        self, model: SessionModel, placed: PlacedGraph, graph_def: Any, is_constant: bool
    ) -> None:
        """Takes a model and its graph.

        Args:
            model: The model.
            placed: The model's graph.
            graph_def: The same graph as a message.
            is_constant: Whether the graph has no variables.
        """
        self._model, self._placed, self._graph_def = model, placed, graph_def
        self._is_constant = is_constant
        self._usual = [(spec.name, spec.shape) for spec in model.inputs]
        self._lock = threading.Lock()
        self._by_ranks: dict[tuple[int, ...], SessionModel | ItemRefusedError] = {}

    def model_for(self, inputs: Arrays) -> SessionModel:
        """Returns the model for these values.

        Raises:
            ItemRefusedError: The graph does not take values of these ranks.
        """
        if all(
            shape is None or has_shape(inputs[name].shape, shape) for name, shape in self._usual
        ):
            return self._model
        ranks = tuple(inputs[name].ndim for name, _ in self._usual)
        with self._lock:
            found = self._by_ranks.get(ranks)
            if found is None:
                found = self._by_ranks[ranks] = self._import(ranks)
        if isinstance(found, ItemRefusedError):
            raise ItemRefusedError(str(found))
        return found

    def close(self) -> None:
        """Frees the other models."""
        for model in self._by_ranks.values():
            if isinstance(model, SessionModel) and model is not self._model:
                model.close()

    def _import(self, ranks: tuple[int, ...]) -> SessionModel | ItemRefusedError:
        if len(self._by_ranks) >= _MOST_RANKS:  # each model may hold a copy of the weights
            name = self._placed.path.name
            return ItemRefusedError(f"model {name}: values of too many kinds of rank")
        shapes = [(None,) * rank for rank in ranks]
        try:
            other = _import_with(self._placed, self._graph_def, shapes)
        except EngineError as error:
            path = self._placed.path  # clients get only the name, not the path
            return ItemRefusedError(str(error).replace(str(path), path.name))
        return SessionModel(other) if self._is_constant else self._model


def find_batched(placed: PlacedGraph, graph_def: Any) -> list[bool | None]:
    """Finds the outputs whose axis 0 is the batch, without a call that might assign a variable.

    TensorFlow proves the axes at the import. With inputs of 5 rows a batched output has 5 rows,
    with 7 it has 7, and no other axis does. If TensorFlow proves nothing, the model's file decides.

    Args:
        placed: The graph.
        graph_def: The result of `make_plain` for that graph.

    Returns:
        For each output whether it is batched. None if neither TensorFlow nor the file tells.
    """
    fixed = {spec.batch_size for spec in placed.inputs if spec.batch_size is not None}
    sizes = (*fixed, *fixed) if len(fixed) == 1 else _PROVED_SIZES
    lengths = []
    for size in sizes:
        shapes = [s.shape and (size, *s.shape[1:]) for s in placed.inputs]
        try:
            other = graph_def and _import_with(placed, graph_def, shapes)
        except EngineError:
            other = None
        if other is None:
            return [spec.is_batched for spec in placed.outputs]
        lengths.append([_lengths(fetch, size) for fetch in other.fetches])
    return [found == ((True, False),) * 2 for found in zip(*lengths, strict=True)]


def _lengths(tensor: Any, size: int) -> tuple[bool, bool]:
    """Returns whether axis 0 of a tensor has a length, and whether another axis has this length."""
    first, *others = tensor.shape.as_list() if tensor.shape.rank else [None]
    return first == size, size in others


def make_plain(placed: PlacedGraph) -> Any:
    """Returns a graph as a ``GraphDef`` without calls, or None if some calls must stay."""
    graph_def = placed.graph.as_graph_def()
    if graph_def.library.function:  # TensorFlow proves no shapes through a call
        return inline_calls(placed.graph, [fetch.op.name for fetch in placed.fetches])
    return graph_def


def _import_with(
    placed: PlacedGraph, graph_def: Any, shapes: Sequence[Sequence[int | None] | None]
) -> PlacedGraph:
    """Imports a graph again, for inputs of other shapes (None for any shape).

    Raises:
        EngineError: The graph's operations do not take these shapes.
    """
    by_node = dict(zip((feed.op.name for feed in placed.feeds), shapes, strict=True))
    graph_def, copied = type(graph_def)(), graph_def
    graph_def.CopyFrom(copied)
    for node in graph_def.node:
        node.attr.pop("_output_shapes", None)
        if node.name in by_node and node.op == "Placeholder":
            shape, lengths = node.attr["shape"].shape, by_node[node.name]
            shape.Clear()
            shape.unknown_rank = lengths is None
            sizes = (-1 if length is None else length for length in lengths or ())
            shape.dim.extend(shape.Dim(size=size) for size in sizes)
    inputs = [(s.name, t.name) for s, t in zip(placed.inputs, placed.feeds, strict=True)]
    outputs = [(s.name, t.name) for s, t in zip(placed.outputs, placed.fetches, strict=True)]
    return PlacedGraph(placed.path, graph_def, inputs, outputs, placed.device)


def engine_error(path: Path, error: Any) -> EngineError:
    """Converts an error of TensorFlow: keeps its kind and its own sentence, drops the listing."""
    lines = str(error.message).splitlines()
    # Indented lines belong to the listing of the Python code that made the graph.
    own = [line for line in lines if line.strip() and not line[0].isspace()]
    sentence = next((line for line in own if not line.startswith(_LISTING)), "no message")
    name = type(error).__name__
    said = f"{name}: {_FUNCTION.sub('', sentence)}"
    if name in _OF_INPUTS:
        return ItemRefusedError(f"model {path.name}: {said}")
    return model_error(path, said)


def _callable(session: Any, feeds: list[str], fetches: list[str]) -> Any:
    from tensorflow.core.protobuf import config_pb2

    options = config_pb2.CallableOptions(feed=feeds, fetch=fetches)
    # Session.make_callable, the documented variant, uses Session.run if there are feeds.
    return session._make_callable_from_options(options)
