"""A graph on a GPU that shares memory with PyTorch, which is modelflow's device library."""

from collections.abc import Mapping
from typing import Any

from modelflow.device import Device
from modelflow.device.torch_memory import load_torch
from modelflow.engine.engine import LoadedModel, refuse_closed
from modelflow.engine.tensorflow.library import load_tensorflow
from modelflow.engine.tensorflow.runners.placed_graph import PlacedGraph
from modelflow.engine.tensorflow.runners.session import engine_error

# Eigen's alignment in bytes. TensorFlow ends the process if a tensor is not aligned.
_ALIGNMENT = 64


class TensorModel(LoadedModel):
    """A graph whose inputs and outputs are PyTorch's tensors, passed by DLPack without a copy.

    TensorFlow works on a stream of its own and does not know the events of others. Therefore `run`
    waits for the inputs before a call, and for TensorFlow's work after the call.
    """

    def __init__(self, placed: PlacedGraph, device: Device) -> None:
        """Makes a function from the graph's inputs to its outputs.

        Args:
            placed: The graph.
            device: The device of the ports.
        """
        tf = load_tensorflow()
        self._tf, self._torch = tf, load_torch()
        self._path, self._device = placed.path, placed.device
        self.inputs, self.outputs, self.memory = placed.inputs, placed.outputs, device
        graph_def = placed.graph.as_graph_def()
        whole = tf.compat.v1.wrap_function(
            lambda: tf.graph_util.import_graph_def(graph_def, name=""), []
        )
        tensors = whole.graph.get_tensor_by_name
        with whole.graph.as_default():  # a fed tensor cannot be fetched
            fetches = [tf.identity(tensors(fetch.name)) for fetch in placed.fetches]
        self._call: Any = whole.prune([tensors(feed.name) for feed in placed.feeds], fetches)

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Runs one batch of tensors. The outputs are tensors on the same device."""
        tf, torch = self._tf, self._torch
        if self.memory.kind == "cuda" and torch.cuda.is_available():
            torch.cuda.current_stream(self.memory.index).synchronize()
        try:
            with tf.device(self._device):
                given = [
                    tf.experimental.dlpack.from_dlpack(
                        torch.utils.dlpack.to_dlpack(_align(inputs[spec.name]))
                    )
                    for spec in self.inputs
                ]
                results = self._call(*given)
            tf.test.experimental.sync_devices()
        except tf.errors.OpError as error:
            raise engine_error(self._path, error) from error
        return {
            spec.name: torch.utils.dlpack.from_dlpack(tf.experimental.dlpack.to_dlpack(result))
            for spec, result in zip(self.outputs, results, strict=True)
        }

    def close(self) -> None:
        """Frees the graph and the weights."""
        self._call = refuse_closed


def _align(tensor: Any) -> Any:
    tensor = tensor.contiguous()
    return tensor.clone() if tensor.data_ptr() % _ALIGNMENT else tensor
