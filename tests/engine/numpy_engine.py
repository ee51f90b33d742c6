"""An engine as in a plug-in: doubles its input, and counts."""

import numpy as np

from modelflow.engine import Engine, LoadedModel, TensorSpec


class DoublingModel(LoadedModel):
    def __init__(self, shape):
        self.inputs = (TensorSpec("x", np.dtype(np.float32), shape),)
        self.outputs = (TensorSpec("y", np.dtype(np.float32), shape, is_batched=True),)
        self.batches = []
        self.staged = []
        self.closed = 0

    def run(self, inputs):
        self.batches.append(inputs["x"].shape)
        self.staged.append(inputs["x"])
        return {"y": inputs["x"] * 2}

    def close(self):
        self.closed += 1


class NumpyEngine(Engine):
    """An engine for ``.shape`` files, which hold the shape of the input as text."""

    suffixes = (".shape",)

    def __init__(self):
        self.loaded: list[DoublingModel] = []

    def load(self, request):
        text = request.path.read_text().split()
        model = DoublingModel(tuple(None if part == "?" else int(part) for part in text))
        self.loaded.append(model)
        return model
