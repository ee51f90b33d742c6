"""Tests that a module's writes are read from its graph, in every form of module."""

import numpy as np
import pytest

from modelflow import Model

torch = pytest.importorskip("torch")

from modelflow.engine.torch.writes import INPUT, OWN, find_written  # noqa: E402 - needs torch

NOTHING = frozenset()
KEPT = torch.zeros(1, 3)


class Kept(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("b", torch.zeros(2, 3))
        self.plain = torch.zeros(1, 3)
        self.listed = [torch.zeros(1, 3)]
        self.named = {"k": torch.zeros(1, 3)}
        self.count = 0


class ReadsOnly(Kept):
    def forward(self, x):
        y = x + self.b[:1]
        y.relu_()
        y[:1].mul_(2)
        first = y.unbind(0)[0]
        first.add_(self.listed[0][0])
        return y


class WritesBuffer(Kept):
    def forward(self, x):
        self.b[:1].copy_(x[:1])
        return self.b[:1] + x


class WritesPart(Kept):
    def forward(self, x):
        first, _ = self.b.unbind(0)
        first.copy_(x[0])
        return self.b[:1] + x


class WritesOut(Kept):
    def forward(self, x):
        torch.mul(x[:2], 1, out=self.b)
        return self.b[:1] + x


class WritesListed(Kept):
    def forward(self, x):
        self.listed[0].copy_(x[:1])
        return self.listed[0] + x


class WritesNamed(Kept):
    def forward(self, x):
        self.named["k"].copy_(x[:1])
        return self.named["k"] + x


class Replaces(Kept):
    def forward(self, x):
        self.named["k"] = x[:1]
        return self.named["k"] + x


class Counts(Kept):
    def forward(self, x):
        self.count += 1
        return x + self.count


class WritesInput(torch.nn.Module):
    def forward(self, x):
        x.data.mul_(2)
        return x + 1


class WritesAlways(torch.nn.Module):
    def forward(self, x):
        x.mul_(2)
        return x + 1


class WritesSometimes(torch.nn.Module):
    def forward(self, x):
        if bool(x.sum() > 0):
            x.mul_(0)
        return x + 1


class WritesInList(torch.nn.Module):
    def forward(self, x):
        both = [x, x + 1]
        both[0].mul_(2)
        return both[1]


SCRIPTS = {
    ReadsOnly: NOTHING,
    WritesBuffer: {OWN},
    WritesPart: {OWN},
    WritesOut: {OWN},
    WritesListed: {OWN},
    WritesNamed: {OWN},
    Replaces: {OWN},
    Counts: {OWN},
    WritesInput: {INPUT},
    WritesAlways: {INPUT},
    WritesSometimes: {INPUT},
    WritesInList: {INPUT},
}


@pytest.mark.parametrize("module", SCRIPTS)
def test_of_a_script(module):
    script = torch.jit.freeze(torch.jit.script(module().eval()))
    assert find_written(script) == SCRIPTS[module]


@pytest.mark.parametrize(
    ("function", "expected"),
    [(lambda x: KEPT.copy_(x[:1]) + x, {OWN}), (lambda x: KEPT + x, NOTHING)],
    ids=["writes", "reads"],
)
def test_of_a_traced_function(tmp_path, function, expected):
    path = str(tmp_path / "traced.pt")
    torch.jit.save(torch.jit.trace(function, torch.ones(1, 3), check_trace=False), path)
    assert find_written(torch.jit.freeze(torch.jit.load(path).eval())) == expected


PROGRAMS = {
    ReadsOnly: NOTHING,
    WritesBuffer: {OWN},
    WritesPart: {OWN},
    WritesOut: {OWN},
    WritesAlways: {INPUT},
    WritesInList: {INPUT},
}


@pytest.mark.filterwarnings(
    "ignore:Attempted to insert a get_attr Node",
    "ignore:Node lifted_tensor_0",  # a warning of PyTorch 2.6 itself
)
@pytest.mark.parametrize("module", PROGRAMS)
def test_of_an_exported_program(tmp_path, module):
    path = str(tmp_path / "program.pt2")
    torch.export.save(torch.export.export(module(), (torch.ones(2, 3),), strict=False), path)
    assert find_written(torch.export.load(path).module()) == PROGRAMS[module]


def test_an_array_stays_the_callers_own_where_a_branch_writes_to_the_input(tmp_path):
    path = str(tmp_path / "sometimes.pt")
    torch.jit.save(torch.jit.script(WritesSometimes()), path)
    given = np.full(3, 5, np.float32)
    with Model(path) as model:
        model.infer([np.full(3, -1, np.float32)])
        (answer,) = model.infer([given])
    assert (given.tolist(), answer.data.tolist()) == ([5] * 3, [1] * 3)
