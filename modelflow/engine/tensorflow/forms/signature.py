"""The signatures of a SavedModel, read without its weights."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelflow.engine.engine import model_error
from modelflow.engine.model_file import looks_like
from modelflow.engine.tensorflow.library import load_tensorflow
from modelflow.engine.tensorflow.runners.placed_graph import tensor_spec
from modelflow.errors import did_you_mean
from modelflow.wire.tensor import TensorSpec

_LARGEST = (1 << 31) - 1


def read_message(path: Path, message: Any, expected: str) -> None:
    """Reads a file into the empty protobuf ``message``.

    Raises:
        EngineError: The file has another form, or is larger than a message may be (2 GiB).
    """
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    size = path.stat().st_size
    if size > _LARGEST:
        raise model_error(path, f"{size} bytes; expected {expected} of at most 2 GiB")
    reason: Exception | None = None
    try:
        message.ParseFromString(path.read_bytes())
    except DecodeError as error:
        reason = error
    if reason is not None or not message.ByteSize():
        raise model_error(path, f"{looks_like(path)}; expected {expected}") from reason


_DEFAULT = "serving_default"


@dataclass(frozen=True)
class Signature:
    """A signature of a SavedModel.

    Attributes:
        path: The SavedModel's folder.
        key: The signature's name.
        inputs, outputs: Key -> the tensor's description, with the key as its name.
        input_tensors, output_tensors: Key -> the name of the tensor in the graph.
        tags: The tags of the signature's graph.
        is_version_1: Whether TensorFlow 1 wrote the model. Tensors of its graph can be used as
            ports.
        meta_graph: The message that describes the graph, with all its signatures.
    """

    path: Path
    key: str
    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]
    input_tensors: Mapping[str, str]
    output_tensors: Mapping[str, str]
    tags: tuple[str, ...]
    is_version_1: bool
    meta_graph: Any


def read_methods(path: Path) -> dict[str, str]:
    """Returns the names of a SavedModel's signatures, with the method of each.

    Raises:
        EngineError: The folder is no SavedModel.
    """
    found = _serving_graph(path).signature_def
    return {key: found[key].method_name for key in sorted(found) if not key.startswith("__")}


def read_signature(path: Path, wanted: str) -> Signature:
    """Reads the description of a SavedModel, without its weights.

    Args:
        path: The folder.
        wanted: The signature's name. Empty for ``serving_default``, or else the only signature.

    Raises:
        EngineError: The folder is no SavedModel, or lacks the signature.
    """
    meta = _serving_graph(path)
    keys = [key for key in meta.signature_def if not key.startswith("__")]
    key = wanted or (_DEFAULT if _DEFAULT in keys or len(keys) != 1 else keys[0])
    if key not in keys:
        listed = ", ".join(sorted(keys)) or "none"
        what = f"no signature {key!r}{did_you_mean(key, keys)}" if wanted else "several signatures"
        if not keys:
            what = "no signature"
        raise model_error(path, f"{what}; its signatures are: {listed}; set signature to one")
    definition = meta.signature_def[key]
    return Signature(
        path,
        key,
        _describe(path, definition.inputs),
        _describe(path, definition.outputs),
        {key: tensor.name for key, tensor in definition.inputs.items()},
        {key: tensor.name for key, tensor in definition.outputs.items()},
        tuple(meta.meta_info_def.tags),
        not meta.object_graph_def.nodes,
        meta,
    )


def _serving_graph(path: Path) -> Any:
    load_tensorflow()
    from tensorflow.core.protobuf import saved_model_pb2

    file = path / "saved_model.pb"
    if not file.is_file():
        raise model_error(path, "expected a SavedModel, which is a folder with saved_model.pb")
    parsed = saved_model_pb2.SavedModel()
    read_message(file, parsed, "the description of a SavedModel")
    graphs = [g for g in parsed.meta_graphs if "serve" in g.meta_info_def.tags]
    if not graphs and len(parsed.meta_graphs) == 1:
        graphs = list(parsed.meta_graphs)
    if not graphs:
        tags = [", ".join(g.meta_info_def.tags) for g in parsed.meta_graphs]
        raise model_error(
            file,
            f"{looks_like(file) if not tags else f'graphs tagged {tags}'}; "
            "expected a SavedModel with a graph tagged 'serve'",
        )
    return graphs[0]


def _describe(path: Path, tensors: Mapping[str, Any]) -> dict[str, TensorSpec]:
    make = load_tensorflow().TensorSpec
    specs = {key: make(tensor.tensor_shape, tensor.dtype) for key, tensor in tensors.items()}
    return {key: tensor_spec(path, key, specs[key]) for key in sorted(specs)}
