"""The expected results: the engine itself, called with a batch of one row, without modelflow."""

import numpy as np
import onnxruntime
import torch

from tests.models.plug_in import function_of
from tests.serve.half_plus_two import tensorflow

__all__ = ["answers"]


def answers(path, engine, kind):
    """Returns for each row the outputs by name, computed in a batch of that row alone.

    For a model with a fixed batch, the first of equal rows. None if the row is rejected.
    """
    run = RUNNERS[engine](path, kind)
    found = []
    for place, row in enumerate(kind.rows):
        if kind.words(engine, place):
            found.append(None)
            continue
        outputs = run({name: batch_of(port, row[name]) for name, port in kind.inputs.items()})
        found.append({name: first_of(port, outputs[name]) for name, port in kind.outputs.items()})
    return found


def batch_of(port, item):
    count = port.shape[0] if port.is_batched and port.shape and port.shape[0] else 1
    return np.stack([item] * count) if port.is_batched else np.asarray(item)


def first_of(port, output):
    return np.array(output[:1] if port.is_batched else output)


def with_onnx(path, kind):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = list(kind.outputs)

    def run(inputs):
        texts = {name: as_text(value) for name, value in inputs.items()}
        return dict(zip(names, session.run(names, texts), strict=True))

    return run


def with_onnx_as_judge(path, kind):
    return with_onnx(path.parents[1] / "model.onnx", kind)


def as_text(array):
    if array.dtype != object:
        return array
    texts = [one.decode() if isinstance(one, bytes) else one for one in array.flat]
    return np.array(texts, object).reshape(array.shape)


def with_tensorflow(path, kind):
    tf = tensorflow()
    loaded = tf.saved_model.load(str(path))
    function = loaded.signatures[kind.signature or "serving_default"]

    def run(inputs):
        _ = loaded  # its variables live as long as the loaded model
        tensors = {name: tf.constant(value) for name, value in inputs.items()}
        return {name: value.numpy() for name, value in function(**tensors).items()}

    return run


def with_torch(load):
    def of(path, kind):
        module = load(str(path))

        def run(inputs):
            with torch.no_grad():
                tensors = [torch.from_numpy(value.copy()) for value in inputs.values()]
                found = module(*(one.bfloat16() if kind.is_narrow else one for one in tensors))
            if isinstance(found, torch.Tensor):
                found = [found]
            if not isinstance(found, dict):
                found = dict(zip(kind.outputs, found, strict=True))
            return {
                name: (value.float() if kind.is_narrow else value.clone()).numpy()
                for name, value in found.items()
            }

        return run

    return of


def with_function(_path, kind):
    return function_of(kind)


def with_class(_path, kind):
    run = function_of(kind)
    return lambda inputs: run({name: as_text(value) for name, value in inputs.items()})


RUNNERS = {
    "onnx": with_onnx,
    "openvino": with_onnx_as_judge,
    "tensorflow": with_tensorflow,
    "torch script": with_torch(torch.jit.load),
    "torch export": with_torch(lambda path: torch.export.load(path).module()),
    "plug-in": with_function,
    "python class": with_class,
}
