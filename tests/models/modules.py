"""The table's modules of PyTorch, including modules with state between calls."""

import numpy as np
import torch
from torch import Tensor, nn

TABLE = np.array([10, 20, 30], np.float32)


class Concatenated(nn.Module):
    def forward(self, x):
        return torch.cat([x, x], 1)


class Many(nn.Module):
    def forward(self, b, i, u, h, d) -> dict[str, Tensor]:
        found = {"b2": torch.cat([b, b], 1), "i2": torch.cat([i, i], 1)}
        found["u2"] = torch.cat([u, u], 1)
        found["h2"] = torch.cat([h, h], 1)
        found["d2"] = torch.cat([d, d], 1)
        return found


class Table(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.from_numpy(TABLE))

    def forward(self):
        return self.table + 0


class Third(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("three", torch.tensor(3, dtype=torch.bfloat16))

    def forward(self, x):
        return x / self.three


class Doubled(nn.Module):
    def forward(self, x):
        return x + x


class Above(nn.Module):
    def forward(self, x, k):
        return x > k


class Ragged(nn.Module):
    def forward(self, x) -> dict[str, Tensor]:
        return {"output": torch.cat([x, x], 1), "first": x.amax(1)}


class Named(nn.Module):
    def forward(self, x) -> dict[str, Tensor]:
        return {"half": x / 2, "double": x + x}


class Both(nn.Module):
    def forward(self, x):
        return x / 2, x + x


class Found(nn.Module):
    def forward(self, x):
        return x.nonzero()


class DoubledAndSum(nn.Module):
    def forward(self, x):
        return x + x, x.sum()


class DoubledAndTable(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.from_numpy(TABLE.copy()))

    def forward(self, x):
        return x + x, self.table


class OwnBuffer(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("memory", torch.zeros(4, 3))

    def forward(self, x):
        part = self.memory[: x.size(0)]
        part.copy_(x)
        return part


class OwnArray:
    """The same module with memory of NumPy."""

    def __init__(self):
        self.memory = np.zeros((4, 3), np.float32)

    def __call__(self, x):
        part = self.memory[: len(x)]
        part[:] = x
        return part


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        self.count.add_(1)
        return x + x


def counting(tf, module):
    module.count = tf.Variable(0.0)

    def run(x):
        module.count.assign_add(1.0)
        return x + x

    return run


class Huge(nn.Module):
    def forward(self, x):
        return x.unsqueeze(1) + torch.arange(500_000, dtype=torch.float64)


class Writing(nn.Module):
    def forward(self, x):
        x.add_(1)
        return x + x


class LookedUp(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.from_numpy(TABLE.copy()))

    def forward(self, x):
        return self.table[x]


class NotReentrant(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("memory", torch.zeros(4, 100_000))

    def forward(self, x):
        part = self.memory[: x.size(0)]
        part.copy_(x)
        return part * 2
