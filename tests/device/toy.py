"""A kind of device as in a plug-in, whose memory is readable only on the thread that waited."""

import threading

import numpy as np

from modelflow.device import CPU, Device, Memory
from modelflow.unit.port import Port
from modelflow.unit.spec import FlowUnitSpec
from modelflow.unit.unit import FlowUnit


class ToyArray:
    """An array in the memory of a toy; a thread that did not wait cannot read the array."""

    def __init__(self, values, device):
        self._values = values
        self.device = device
        self.nbytes = values.nbytes
        self.shape = values.shape
        self.owner = threading.get_ident()

    def values(self, device):
        assert self.owner == threading.get_ident(), "read before its fence was waited for"
        assert self.device == device, f"on {self.device}, read on {device}"
        return self._values


class ToyMemory(Memory):
    kind = "toy"
    uploads = 0
    downloads = 0

    def count(self):
        return 2

    def describe_found(self):
        return "there are two toys in the box"

    def holds(self, data):
        return isinstance(data, ToyArray)

    def device_of(self, data):
        return data.device

    def dtype_of(self, data):
        return data._values.dtype

    def gather(self, items, size, dtype, device, shape=None):
        rows = [i.values(device) if isinstance(i, ToyArray) else i for i in items]
        whole = np.zeros((size, *rows[0].shape), dtype)
        whole[: len(rows)] = rows
        return ToyArray(whole, device)

    def upload(self, arrays, device):
        self.uploads += 1
        if any(np.size(array) == 13 for array in arrays if isinstance(array, np.ndarray)):
            message = "no room for 13 numbers"
            raise MemoryError(message)
        return [
            ToyArray(a.values(a.device) if isinstance(a, ToyArray) else a.copy(), device)
            for a in arrays
        ]

    def download(self, arrays):
        self.downloads += 1
        return [array.values(array.device).copy() for array in arrays]

    def fence(self, device):
        return threading.get_ident()

    def wait(self, fence, arrays):
        for array in arrays:
            assert array.owner == fence
            array.owner = threading.get_ident()


class AddOne(FlowUnit):
    """Adds 1 on any device; ``batches`` are the devices of its calls.

    With a ``barrier``, calls wait until as many are in progress.
    """

    barrier: threading.Barrier | None = None
    batches: list[Device] = []  # noqa: RUF012

    def process(self, ctx):
        if self.barrier is not None:
            self.barrier.wait(30)
        self.batches.append(self.device)
        if self.device == CPU:
            ctx.emit([buffer.data + 1 for buffer in ctx.inputs["in"]])
        else:
            given = [buffer.data.values(self.device) for buffer in ctx.inputs["in"]]
            ctx.emit([ToyArray(values + 1, self.device) for values in given])


ADD_ONE = FlowUnitSpec(
    "add_one",
    {"cpu": AddOne, "toy": AddOne},
    inputs=(Port("in"),),
    outputs=(Port("out"),),
)
