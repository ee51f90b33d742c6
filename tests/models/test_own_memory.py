"""Tests that a PyTorch module which writes to its own memory answers many callers correctly."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from modelflow import Model
from tests import torch_as_cuda
from tests.models.kinds import KINDS

WIDTH = KINDS["not re-entrant"].inputs["x"].shape[1]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("engine", ["torch script", "torch export"])
def test_a_module_that_writes_to_its_own_buffer_is_called_by_one_thread_at_a_time(
    cells, engine, device, monkeypatch
):
    torch_as_cuda.install(monkeypatch)

    def ask(number):
        (answer,) = model.infer([np.full(WIDTH, number, np.float32)])
        return set(answer.data.tolist())

    with (
        Model(cells[engine, "not re-entrant"].source, device=device, threads=4) as model,
        ThreadPoolExecutor(8) as pool,
    ):
        found = list(pool.map(ask, range(300)))
    assert found == [{2.0 * number} for number in range(300)]
