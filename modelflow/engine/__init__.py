"""What an inference unit runs. Light: an engine's package is loaded with its first model."""

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
