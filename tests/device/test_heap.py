"""Tests of the objects that the garbage collector visits, in a separate process."""

from tests import programs

PROGRAM = """
import gc, weakref
from modelflow.device.heap import give_memory_back, settle_heap, freeze_heap

class Node:
    pass

def cycle():
    node = Node()
    node.self = node
    return node

settle_heap()
print(gc.get_freeze_count())
with freeze_heap():
    print(gc.get_freeze_count() > 1000)
    model = cycle()
    settle_heap()
    gone = weakref.ref(model)
    model = None
    gc.collect()
    print(gone() is not None)
    give_memory_back()
    print(gone(), gc.get_freeze_count() > 1000)
print(gc.get_freeze_count())
"""


def test_what_stays_is_not_looked_at_until_a_model_has_gone(tmp_path):
    done = programs.run(["python", "-c", PROGRAM], cwd=tmp_path)
    assert done.stdout.split("\n") == ["0", "True", "True", "None True", "0", ""], done.stderr
