"""Tests of another thread's position, read during garbage collection and thread starts."""

import sys
import threading

from modelflow.runtime.workers.stacks import find_position
from tests import programs

# Where Python is older than 3.11.9, a thread that asks the interpreter with the collector on
# freezes within some hundred requests. All other threads freeze with it.
ASK = """
import faulthandler, gc, threading, time
from modelflow.runtime.workers.stacks import find_position
faulthandler.dump_traceback_later(20, exit=True)
class Garbage:
    def __init__(self): self.itself = self
    def __del__(self): time.sleep(0)  # lets another thread run
is_over, threads = threading.Event(), []
def start_threads():
    while not is_over.is_set():
        thread = threading.Thread(target=int)
        thread.start()
        thread.join()
threads += [threading.Thread(target=start_threads) for _ in range(4)]
threads += [threading.Thread(target=is_over.wait) for _ in range(200)]
for thread in threads:
    thread.start()
gc.set_threshold(20)
for _ in range(1500):
    garbage = [Garbage() for _ in range(10)]
    assert find_position(threading.get_ident())
is_over.set()
print(gc.isenabled())
"""


def test_asking_freezes_nothing():
    assert programs.run([sys.executable, "-c", ASK]).stdout == "True\n"


def test_a_collector_that_is_off_stays_off():
    code = (
        "import gc, threading\n"
        "from modelflow.runtime.workers.stacks import find_position\ngc.disable()\n"
        "find_position(threading.get_ident())\nprint(gc.isenabled())"
    )
    assert programs.run([sys.executable, "-c", code]).stdout == "False\n"


def test_the_position_is_the_innermost_call():
    entered, is_over = threading.Event(), threading.Event()

    def wait_inside():
        entered.set()
        is_over.wait()

    thread = threading.Thread(target=wait_inside)
    thread.start()
    entered.wait()
    position = find_position(thread.ident)
    is_over.set()
    thread.join()
    assert "threading.py:" in position or "test_stacks.py:" in position
    assert find_position(thread.ident) == ""
