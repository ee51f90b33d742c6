"""Results of models own their memory, have the model's types, and their names."""

import numpy as np
import pytest

from modelflow import Model
from modelflow.engine.batching import copy_shared

torch = pytest.importorskip("torch")

ITEMS = [np.array([1, 2, 3], np.float32), np.array([4, 5, 6], np.float32)]


class OwnBuffer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("kept", torch.zeros(1, 3))

    def forward(self, x):
        self.kept.copy_(x[:1])
        return self.kept


class OwnAttribute(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = torch.zeros(1, 3)

    def forward(self, x):
        self.kept.copy_(x[:1])
        return self.kept


class OwnList(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = {"of one": [torch.zeros(1, 3)]}

    def forward(self, x):
        kept = self.kept["of one"][0]
        kept.copy_(x[:1])
        return kept[:, :2]


class Named(torch.nn.Module):
    def forward(self, x) -> dict[str, torch.Tensor]:
        return {"half": x / 2, "double": x * 2}


class Half(torch.nn.Module):
    def forward(this, x):  # noqa: N805 - a name of one's own
        return x.to(torch.bfloat16)


class Class(torch.nn.Module):
    def forward(self, x):
        return x.argmax(1)


def save(module, folder):
    path = folder / "model.pt"
    torch.jit.save(torch.jit.script(module), str(path))
    return path


@pytest.mark.parametrize("module", [OwnBuffer, OwnAttribute, OwnList])
def test_an_answer_stays_when_the_next_request_runs(tmp_path, module):
    with Model(save(module(), tmp_path)) as model:
        (first,) = model.infer([ITEMS[0]])
        model.infer([ITEMS[1]])
    found = np.ravel(first.data)
    np.testing.assert_array_equal(found, ITEMS[0][: len(found)])


@pytest.mark.parametrize("name", ["half", "double"])
def test_results_of_a_dict_have_their_keys(tmp_path, name):
    factor = {"half": 0.5, "double": 2}[name]
    with Model(save(Named(), tmp_path), outputs=[name]) as model:
        (answer,) = model.infer([ITEMS[0]])
    np.testing.assert_array_equal(answer.data, ITEMS[0] * factor)


def test_bfloat16_is_given_as_float32(tmp_path):
    with Model(save(Half(), tmp_path)) as model:
        (answer,) = model.infer([ITEMS[0]])
    assert answer.data.dtype == np.float32
    np.testing.assert_array_equal(answer.data, ITEMS[0])


def test_a_class_number_is_an_integer(tmp_path):
    with Model(save(Class(), tmp_path)) as model:
        (answer,) = model.infer([ITEMS[0]])
    assert answer.data.dtype == np.int64
    assert answer.data == 2


KEPT = np.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize(
    ("make", "is_copied"),
    [
        (lambda: KEPT, True),
        (lambda: KEPT[1:], True),
        (lambda: np.ones(3), False),
        (lambda: np.ones((2, 3))[1:], False),
        (lambda: torch.ones(3).numpy(), False),
    ],
    ids=["own array", "own view", "fresh", "fresh view", "fresh tensor's"],
)
def test_what_a_model_still_refers_to_is_copied(make, is_copied):
    held = {"y": make()}
    address = held["y"].__array_interface__["data"][0]
    result = copy_shared(held.pop("y"), [])
    assert (result.__array_interface__["data"][0] != address) is is_copied
