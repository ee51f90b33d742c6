"""The engine of TensorFlow: finds the form of a model and loads the model on its device."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from modelflow.engine.engine import Engine, LoadedModel, LoadRequest, model_error
from modelflow.engine.tensorflow import settings
from modelflow.engine.tensorflow.forms.frozen_graph import load_frozen_graph
from modelflow.engine.tensorflow.forms.keras_model import load_keras_model
from modelflow.engine.tensorflow.forms.saved_model import load_saved_model
from modelflow.engine.tensorflow.forms.signature import read_methods, read_signature
from modelflow.engine.tensorflow.library import loading
from modelflow.wire.tensor import TensorSpec


class TensorFlowEngine(Engine):
    """Runs frozen graphs, SavedModels and Keras models on the CPU and on NVIDIA GPUs."""

    suffixes: ClassVar[tuple[str, ...]] = (".pb", ".keras", ".h5", ".hdf5")
    requires: ClassVar[Mapping[str, str]] = {"tensorflow": "tensorflow"}
    device_kinds: ClassVar[tuple[str, ...]] = ("cpu", "cuda")
    options = settings.TensorFlowOptions

    def is_reader_of(self, path: Path) -> bool:
        """Returns True if ``path`` is a SavedModel's folder or ends as TensorFlow's models do."""
        return (path / "saved_model.pb").is_file() or super().is_reader_of(path)

    def signatures(self, path: Path) -> Mapping[str, str]:
        """Returns the signatures of a SavedModel, with their method names."""
        if not (path / "saved_model.pb").is_file():
            return {}
        with loading:
            return read_methods(path)

    def tensor_names(self, path: Path, signature: str) -> Mapping[str, str]:
        """Returns the names of the tensors of a SavedModel's signature, by port."""
        with loading:
            found = read_signature(path, signature)
        return {**found.input_tensors, **found.output_tensors}

    def load(self, request: LoadRequest) -> LoadedModel:
        """Loads a model; see `Engine.load`."""
        with loading:
            settings.apply_settings(request.options)
            settings.device_name(request.device)  # raises if TensorFlow does not see the device
            if request.path.is_dir():
                return load_saved_model(request)
            suffix = request.path.suffix.lower()
            if suffix == ".pb":
                return load_frozen_graph(request)
            if suffix in self.suffixes:
                return load_keras_model(request)
        expected = f"a SavedModel's folder, or a file ending in {', '.join(self.suffixes)}"
        raise model_error(request.path, f"expected {expected}")

    def describe(self, request: LoadRequest) -> tuple[Sequence[TensorSpec], Sequence[TensorSpec]]:
        """Returns the ports, and reads the ports of a SavedModel without its weights."""
        if not request.path.is_dir() or request.inputs or request.outputs:
            return super().describe(request)
        with loading:
            signature = read_signature(request.path, request.options.signature)
        return tuple(signature.inputs.values()), tuple(signature.outputs.values())
