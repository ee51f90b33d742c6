"""Engines of inference units: TensorFlow, ONNX Runtime, PyTorch, OpenVINO, classes of the user.

An engine reads a model file and options, and returns a `Servable` that runs batches.

`Engine` (``engine.py``) is the contract. ``loading.py`` loads versions and reuses loaded models.
``staging.py`` gathers items into the array that an engine reads. ``batching.py`` cuts batches into
calls. ``warmup.py`` runs requests before a model is ready. An engine's package is imported with its
first model.
"""

from modelflow.engine.engine import Engine, LoadedModel, LoadRequest
from modelflow.engine.lookup import engine_for, engine_names, find_engine
from modelflow.engine.model_file import ModelFile, read_model_file
from modelflow.engine.options import InferenceOptions
from modelflow.wire.tensor import TensorSpec

__all__ = [
    "Engine",
    "InferenceOptions",
    "LoadRequest",
    "LoadedModel",
    "ModelFile",
    "TensorSpec",
    "engine_for",
    "engine_names",
    "find_engine",
    "read_model_file",
]
