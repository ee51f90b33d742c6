import gc
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelflow.device import ArrayPool, empty


def test_memory_is_reused_once_the_last_view_is_gone():
    pool = ArrayPool()
    first = pool.empty((256, 256))
    address = first.ctypes.data
    row = first[3]
    del first
    assert pool.empty((256, 256)).ctypes.data != address
    del row
    again = pool.empty((256, 256))
    assert again.ctypes.data == address
    assert pool.reuses >= 1


def test_arrays_are_plain_writable_and_contiguous():
    array = empty((300, 200, 3), np.float32)
    assert type(array) is np.ndarray
    assert array.flags.c_contiguous
    assert array.flags.writeable
    assert array.dtype == np.float32


@pytest.mark.parametrize("side", [np.int8(100), np.int64(200)])
def test_a_shape_may_be_of_numbers_of_numpy(side):
    assert empty((side, side, 3)).shape == (side, side, 3)


def test_steady_use_allocates_nothing_new():
    pool = ArrayPool()
    pool.empty((1 << 20,))
    before = pool.allocations
    for _ in range(50):
        pool.empty((1 << 20,))
    assert pool.allocations == before


def address_in_a_thread(pool):
    """Returns the address of an array that another thread takes and gives back."""
    found = []
    thread = threading.Thread(
        target=lambda: found.append(pool.empty((1 << 16,)).ctypes.data), name="modelflow/test"
    )
    thread.start()
    thread.join()
    return found[0]


def test_a_thread_gets_its_own_block_again_and_a_block_of_a_thread_that_has_ended():
    pool = ArrayPool()
    own = pool.empty((1 << 16,))
    address = own.ctypes.data
    other = address_in_a_thread(pool)
    del own
    assert pool.empty((1 << 16,)).ctypes.data == address != other
    held = pool.empty((1 << 16,))
    assert pool.empty((1 << 16,)).ctypes.data == other
    assert pool.allocations == 2
    del held


@pytest.mark.parametrize("offset", [0, 1, 16])
def test_an_array_begins_so_many_bytes_behind_a_cache_line(offset):
    arrays = [ArrayPool().empty((size,), np.uint8, offset) for size in (1 << 15, 1 << 16, 99_999)]
    assert [array.ctypes.data % 64 for array in arrays] == [offset] * 3
    for array in arrays:
        array[:] = 1
    assert [len(array) for array in arrays] == [1 << 15, 1 << 16, 99_999]


def test_idle_memory_is_bounded():
    pool = ArrayPool(max_idle=1 << 20)
    arrays = [pool.empty((1 << 19,)) for _ in range(10)]
    arrays.clear()
    gc.collect()
    assert pool.idle_bytes <= 1 << 20


def test_what_is_asked_for_now_has_the_room_of_what_nobody_asks_for_any_more():
    pool = ArrayPool(max_idle=1 << 20)

    def use(size, count):
        arrays = [pool.empty((size,)) for _ in range(count)]
        arrays.clear()
        gc.collect()

    use(1 << 18, 4)  # the whole capacity
    use(1 << 16, 8)
    before = pool.allocations
    for _ in range(5):
        use(1 << 16, 8)
    assert pool.allocations == before
    assert pool.idle_bytes <= 1 << 20
    use(1 << 18, 2)
    assert pool.allocations == before  # the remaining blocks are still pooled
    use(1 << 21, 1)  # larger than the pool: the block is not kept, and evicts no other
    use(1 << 16, 8)
    assert pool.allocations == before + 1


def test_of_one_size_no_more_are_kept_than_have_room():
    pool = ArrayPool(max_idle=1 << 18)
    for _ in range(3):
        arrays = [pool.empty((1 << 16,)) for _ in range(10)]
        arrays.clear()
        gc.collect()
    assert pool.idle_bytes == 1 << 18
    assert pool.allocations == 10 + 6 + 6


@pytest.mark.parametrize("shape", [(), (0,), (5,), (0, 100000)])
def test_small_arrays_do_not_use_blocks(shape):
    pool = ArrayPool()
    assert pool.empty(shape).shape == shape
    assert pool.allocations == 0


@given(st.lists(st.integers(1, 1 << 18), min_size=1, max_size=20))
def test_living_arrays_never_share_memory(sizes):
    pool = ArrayPool()
    arrays = [pool.empty((size,), np.uint8) for size in sizes]
    for number, array in enumerate(arrays):
        array[:] = number
    assert all((array == number).all() for number, array in enumerate(arrays))


def test_threads_share_a_pool():
    pool = ArrayPool()
    wrong = []

    def use(number):
        for _ in range(200):
            array = pool.empty((1 << 15,))
            array[:] = number
            if not (array == number).all():
                wrong.append(number)

    threads = [
        threading.Thread(target=use, args=(n,), name=f"modelflow/test/{n}") for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
