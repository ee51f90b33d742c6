"""A frozen graph, ready to run in a session.

A session's callable costs about a fifth of a concrete function's call (28 against 150 us for a
small network), reads NumPy arrays where they lie if they are aligned, and folds the constants that
the weights of a frozen graph are (25 % on ResNet-50 with one image).
"""

import re
from pathlib import Path
from typing import Any

import numpy.typing as npt

from modelflow.engine.engine import Arrays, LoadedModel
from modelflow.engine.tensorflow.library import load_tensorflow
from modelflow.engine.tensorflow.runners.placed_graph import PlacedGraph
from modelflow.errors import EngineError

__all__ = ["SessionModel", "engine_error"]


_LISTING = ("Graph execution error:", "Detected at node", "[[")
_FUNCTION = re.compile(r"^\{\{function_node .*?\}\} ")


class SessionModel(LoadedModel):
    """A graph without variables, on one device; arrays go in and come out on the host."""

    def __init__(self, placed: PlacedGraph) -> None:
        """Makes the session."""
        tf = load_tensorflow()
        self._path = placed.path
        self._errors = tf.errors
        self.inputs, self.outputs = placed.inputs, placed.outputs
        # One tensor may stand for two ports, and one that is fed cannot be fetched.
        with placed.graph.as_default():
            ways = {fetch.name: tf.identity(fetch).name for fetch in placed.fetches}
        self._feeds = tuple(spec.name for spec in placed.inputs)
        self._fetches = tuple(
            (spec.name, list(ways).index(fetch.name))
            for spec, fetch in zip(placed.outputs, placed.fetches, strict=True)
        )
        self._session = tf.compat.v1.Session(graph=placed.graph, config=_settings(placed))
        feeds = [tensor.name for tensor in placed.feeds]
        self._call = _callable(self._session, feeds, list(ways.values()))

    def run(self, inputs: Arrays) -> dict[str, npt.NDArray[Any]]:
        """Runs one batch; see `LoadedModel.run`."""
        try:
            values = self._call(*[inputs[port] for port in self._feeds])
        except self._errors.OpError as error:
            raise engine_error(self._path, error) from error
        return {port: values[place] for port, place in self._fetches}

    def close(self) -> None:
        """Frees the session and with it the weights."""
        self._call = _closed
        self._session.close()


def engine_error(path: Path, error: Any) -> EngineError:
    """Returns TensorFlow's error as ours: its kind and its own sentence, without the listing."""
    lines = str(error.message).splitlines()
    # What is indented belongs to the listing of the Python code that made the graph.
    own = [line for line in lines if line.strip() and not line[0].isspace()]
    sentence = next((line for line in own if not line.startswith(_LISTING)), "no message")
    return EngineError(f"model {path}: {type(error).__name__}: {_FUNCTION.sub('', sentence)}")


def _settings(placed: PlacedGraph) -> Any:
    config = load_tensorflow().compat.v1.ConfigProto()
    if placed.is_compiled:
        config.graph_options.optimizer_options.global_jit_level = 1
    return config


def _callable(session: Any, feeds: list[str], fetches: list[str]) -> Any:
    from tensorflow.core.protobuf import config_pb2

    options = config_pb2.CallableOptions(feed=feeds, fetch=fetches)
    # Session.make_callable, the documented twin, goes through Session.run where there are feeds.
    return session._make_callable_from_options(options)


def _closed(*_: Any) -> Any:
    message = "the model is closed"
    raise EngineError(message)
