"""An engine as in a plug-in, which runs the functions of the table; a file names the kind."""

import numpy as np

from modelflow.engine import Engine, LoadedModel, TensorSpec
from modelflow.errors import EngineError
from tests.models.kinds import KINDS

__all__ = ["KindEngine", "function_of"]


def function_of(kind):
    """Makes the function of a kind: from the inputs by name to the outputs by name."""
    body = kind.plug_in() if isinstance(kind.plug_in, type) else kind.plug_in
    # ``np.argwhere`` has another name for its argument.
    return lambda inputs: named(kind, body(*(inputs[name] for name in kind.inputs)))


def named(kind, found):
    return found if isinstance(found, dict) else dict(zip(kind.outputs, [found], strict=True))


class KindModel(LoadedModel):
    def __init__(self, kind):
        self.inputs = tuple(spec(*one) for one in kind.inputs.items())
        # The engine does not declare batch axes, so calls must find them.
        self.outputs = tuple(TensorSpec(n, np.dtype(p.dtype)) for n, p in kind.outputs.items())
        self.batch_range = (1, kind.most)
        self._function = function_of(kind)

    def run(self, inputs):
        try:
            return self._function(inputs)
        except IndexError as error:
            raise EngineError(str(error)) from error

    def close(self):
        self._function = None


def spec(name, port):
    stated = {} if port.is_batched else {"is_batched": False}
    return TensorSpec(name, np.dtype(port.dtype), port.shape, **stated)


class KindEngine(Engine):
    suffixes = (".kind",)

    def load(self, request):
        return KindModel(KINDS[request.path.read_text()])
