"""Tests of tensors: gathered, moved, and recognised as rows of a single tensor."""

import numpy as np
import pytest

from modelflow.device import CPU, Device
from modelflow.device.torch_memory import TorchMemory, load_torch, stack_tensors

torch = load_torch()


@pytest.fixture
def tensor(memory, cuda):
    """Returns a function that copies an array's values to the device."""
    return lambda array: torch.from_numpy(array).to(memory.torch_device(cuda))


def test_rows_of_one_tensor_are_stacked_without_a_copy():
    whole = torch.arange(24).reshape(4, 2, 3)
    found = stack_tensors([whole[1], whole[2], whole[3]])
    assert found.data_ptr() == whole[1].data_ptr()
    assert torch.equal(found, whole[1:])


@pytest.mark.parametrize("rows", [(0, 2), (1, 0), (2, 2), (3, 0, 1)])
def test_other_tensors_are_stacked_as_torch_does(rows):
    whole = torch.arange(24).reshape(4, 2, 3)
    found = stack_tensors([whole[row] for row in rows])
    assert torch.equal(found, torch.stack([whole[row] for row in rows]))


def test_views_of_one_storage_that_are_no_rows_are_copied():
    whole = torch.arange(12).reshape(3, 4)
    columns = [whole[:, 0], whole[:, 1]]
    assert torch.equal(stack_tensors(columns), torch.stack(columns))
    other = [whole[0], whole[1].to(torch.float32)[:4].to(torch.int64)]
    assert torch.equal(stack_tensors(other), torch.stack(other))


@pytest.mark.parametrize("where", ["host", "device", "both"])
def test_gather_fills_up_with_zeros(memory, cuda, tensor, where):
    items = [np.full((2, 3), row, np.float32) for row in range(3)]
    given = [
        tensor(item) if where == "device" or (where == "both" and row) else item
        for row, item in enumerate(items)
    ]
    found = memory.gather(given, 5, np.float32, cuda)
    assert found.shape == (5, 2, 3)
    np.testing.assert_array_equal(found[:3].cpu().numpy(), np.stack(items))
    assert not found[3:].any()


def test_gather_converts(memory, cuda, tensor):
    found = memory.gather([tensor(np.ones(2))], 2, np.float32, cuda)
    assert found.dtype == torch.float32
    assert memory.gather([np.ones(2)], 1, np.float32, cuda).dtype == torch.float32


def test_upload_and_download_keep_order_shapes_and_types(memory, cuda):
    arrays = [np.arange(3), np.ones((2, 2), np.uint8), np.arange(3) + 5, np.float32(1)[...]]
    tensors = memory.upload(arrays, cuda)
    assert all(memory.holds(tensor) for tensor in tensors)
    for array, found in zip(arrays, memory.download(tensors), strict=True):
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)


def test_uploaded_memory_is_not_the_callers(memory, cuda):
    array = np.zeros(3)
    array.flags.writeable = False
    (tensor,) = memory.upload([array], cuda)
    tensor += 1
    assert not array.any()


def test_dtypes_have_numpys_names(memory):
    assert memory.dtype_of(torch.zeros(1, dtype=torch.uint8)) == np.uint8
    assert memory.dtype_of(torch.zeros(1, dtype=torch.bfloat16)) is None


def test_only_tensors_of_its_kind_are_held(memory, cuda, tensor):
    class Other(TorchMemory):
        kind, torch_type = "other", "meta"

    given = tensor(np.zeros(1, np.float32))
    assert memory.holds(given)
    assert not memory.holds(np.zeros(1))
    assert not Other().holds(given)
    assert memory.device_of(given) == Device("cuda", 0) == cuda != CPU
