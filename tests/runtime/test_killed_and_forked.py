"""Tests of killed processes and forked children during a busy flow."""

import contextlib
import os
import random
import signal
import threading

import pytest

from modelflow.errors import WorkerProcessError
from tests import programs
from tests.runtime.crowds import side_by_side
from tests.runtime.graphs import Running, chain
from tests.runtime.process_units import process_id


def test_processes_that_are_killed_at_random_cost_what_they_had_and_are_replaced():
    graph = chain((process_id.SPEC, {"workers": "process", "threads": 2}))
    with Running(graph) as flow:
        seen, is_over = [flow.infer(1).data], threading.Event()

        def use(number):
            chance = random.Random(number)
            if number == 0:
                while not is_over.is_set():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(seen[-1], signal.SIGKILL)
                    is_over.wait(0.2 * chance.random())
                return
            for _ in range(60):
                found = flow.session().exchange({"input": [1]}, 120)["output"][0]
                if found.error is None:
                    seen.append(found.data)
                else:
                    assert type(found.error.__cause__) is WorkerProcessError
            is_over.set()

        side_by_side(use, 3)
        assert flow.infer(1).data > 0
    for pid in set(seen):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


FORKING = """
import os, sys, threading, modelflow
@modelflow.flowunit
def same(value):
    return value
text = "digraph { input[type=input] same[threads=3] output[type=output] input -> same -> output }"
with modelflow.Flow(text, units=[same]) as flow:
    is_over = threading.Event()
    def use():
        while not is_over.is_set():
            flow.infer(1)
    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    stream = flow.create_stream_io()
    for _ in range(4):
        child = os.fork()
        if not child:
            for call in (stream.recv, stream.close_input, lambda: flow.infer(1)):
                try:
                    call()
                except modelflow.StreamClosed:
                    continue
                os._exit(3)
            stream.cancel()
            flow.stop(wait=False)
            flow.stop()
            sys.exit(0)
        _, status = os.waitpid(child, 0)
        assert status == 0, status
    is_over.set()
    for thread in threads:
        thread.join()
"""


def test_children_that_are_forked_under_load_end_and_the_flow_goes_on():
    done = programs.run(["python", "-c", FORKING], limit=120)
    assert done.returncode == 0, done.stderr
