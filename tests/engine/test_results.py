"""Results of models own their memory, have the model's types, and their names."""

import numpy as np
import pytest

import modelflow
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


@pytest.mark.parametrize("is_kept", [True, False])
def test_what_a_model_may_still_refer_to_is_copied(is_kept):
    given = np.ones(3)
    result = copy_shared(given, [], is_kept)
    assert np.shares_memory(result, given) != is_kept


@pytest.mark.parametrize("make", [lambda given: given, lambda given: given[1:]])
def test_what_shares_memory_with_an_input_or_another_result_is_copied(make):
    given = np.ones(3)
    seen = [given]
    first = copy_shared(make(given), seen, is_kept=False)
    second = copy_shared(first, seen, is_kept=False)
    assert not any(np.shares_memory(*pair) for pair in [(first, given), (second, first)])


class Kept(modelflow.PythonModel):
    """Returns the same array at each call, with the sum of the batch."""

    inputs = (modelflow.Port("x", dtype="float64", shape="(3,)"),)
    outputs = (modelflow.Port("y", dtype="float64", shape="(3,)"),)

    def load(self, path, device):
        self.kept = np.zeros((1, 3))

    def predict(self, batch):
        self.kept[:] = batch
        return self.kept


def test_a_python_model_may_keep_what_it_returns(tmp_path):
    (tmp_path / "model").touch()
    with Model(tmp_path / "model", engine=f"{__name__}:Kept", batch_size=1) as model:
        answers = [model.infer([np.full(3, i)])[0].data for i in (1.0, 2.0)]
    assert [answer.tolist() for answer in answers] == [[1] * 3, [2] * 3]
