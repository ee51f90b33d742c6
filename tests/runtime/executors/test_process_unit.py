"""Units in processes of their own: the same results, and nothing left behind however it ends."""

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import modelflow
from modelflow.cli.new.template import new_unit
from modelflow.errors import FlowFailed, PlanError
from tests import programs
from tests.runtime import process_units as units

ROOT = Path(__file__).resolve().parents[3]
GRAPH = """digraph {{
    input [type=input]
    work [flowunit={name}, workers=process, threads={threads}, batch_size={batch}{options}]
    output [type=output]
    input -> work -> output
}}"""


def flow_of(unit, *, threads=1, batch=1, options="", **more):
    name = getattr(unit, "SPEC", unit).name
    text = GRAPH.format(name=name, threads=threads, batch=batch, options=options)
    return modelflow.Flow(text, units=[unit], **more)


def children():
    """The processes of units that this process has now."""
    command = ["ps", "--ppid", str(os.getpid()), "-ww", "-o", "pid=", "-o", "args="]
    listed = programs.run(command)
    return [int(x.split()[0]) for x in listed.stdout.splitlines() if "executors.child" in x]


def opened():
    """What the descriptors of this process are, but for that of the listing itself."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(f"/proc/self/fd/{name}"))
    return found


@pytest.fixture(autouse=True)
def _nothing_is_left():
    descriptors = opened()
    memory = set(os.listdir("/dev/shm"))
    yield
    assert not children()
    assert set(os.listdir("/dev/shm")) <= memory
    assert sorted(opened()) == sorted(descriptors)


def all_of(flow, values):
    stream = flow.create_stream_io()
    for value in values:
        stream.send("input", value)
    stream.close_input()
    found = []
    while True:
        try:
            found.append(stream.recv("output", timeout=60))
        except modelflow.FlowUnitError as error:
            found.append(error)
        except modelflow.EndOfStream:
            return found


@pytest.mark.parametrize("batch", [1, 8])
def test_arrays_go_there_and_back_in_order(batch):
    shapes = [(3,), (200, 300), (0,), (1 << 20,), (), (2, 3, 4)]
    arrays = [np.full(shapes[n % len(shapes)], n, np.float32) for n in range(60)]
    arrays.append(np.arange(12).reshape(3, 4).T)  # not in C order
    arrays.append(np.arange(20)[::2])
    with flow_of(units.plus_one, threads=3, batch=batch, options=", by=5") as flow:
        assert len(children()) == 3
        found = all_of(flow, arrays)
    for array, buffer in zip(arrays, found, strict=True):
        np.testing.assert_array_equal(buffer.data, array + 5)
        assert buffer.data.dtype == (array + 5).dtype


def test_it_runs_elsewhere_and_each_thread_has_its_own_process():
    with flow_of(units.process_id, threads=2) as flow:
        found = {buffer.data for buffer in all_of(flow, range(200))}
        assert found <= set(children())
        assert os.getpid() not in found


def test_meta_errors_and_objects_come_back(tmp_path):
    values = [modelflow.Buffer(np.ones(3), {"kind": n}) for n in range(4)]
    with flow_of(units.NOTING, batch=6, options=f', folder="{tmp_path}"') as flow:
        found = all_of(flow, [*values, None, b"bytes"])
        (pid,) = children()
    for n, buffer in enumerate(found[:4]):
        assert buffer.get("was") == n
        assert buffer.get("pid") == pid
        assert buffer.get("kind") == n  # inherited here, as ever
        assert buffer.data["box"].w == 3
        assert buffer.data["data"].tolist() == [1, 1, 1]
    assert "ValueError: nothing" in str(found[4])
    assert found[5].data["data"] == b"bytes"
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"close_{pid}", f"open_{pid}"]


def test_what_is_kept_from_one_call_is_not_overwritten_by_the_next():
    with flow_of(units.plus_one) as flow:
        found = all_of(flow, [np.full(50_000, n) for n in range(20)])
    assert [buffer.data[0] for buffer in found] == [n + 1 for n in range(20)]
    assert all((buffer.data == buffer.data[0]).all() for buffer in found)


def test_a_unit_may_write_to_its_own_inputs():
    array = np.zeros(5000)
    with flow_of(units.IN_PLACE) as flow:
        (buffer,) = all_of(flow, [array])
    assert (buffer.data == 7).all()
    assert not array.any()


def test_an_error_stays_with_its_buffer_and_says_where_it_was():
    with flow_of(units.picky, batch=4) as flow:
        found = all_of(flow, ["a", "bad", "c", "odd", "e"])
    assert [getattr(item, "data", None) for item in found] == ["a", None, "c", None, "e"]
    assert "ValueError: no good" in str(found[1])
    assert "pickle" in str(found[3])


def test_an_error_that_cannot_be_copied_is_told_in_words():
    with flow_of(units.raises_odd) as flow:
        (error,) = all_of(flow, [1])
    assert "Odd: 1 and 2" in str(error)
    notes = "".join(error.__cause__.__notes__)
    assert "In the process of the unit" in notes
    assert "process_units.py" in notes


def test_a_process_that_ends_costs_its_batch_an_error_and_is_replaced():
    values = [n if n != 20 else "die" for n in range(60)]
    with flow_of(units.picky, threads=2) as flow:
        found = all_of(flow, values)
        assert [buffer.data for buffer in all_of(flow, range(40))] == list(range(40))
        assert len(children()) == 2
    errors = [n for n, item in enumerate(found) if isinstance(item, Exception)]
    assert errors == [20]
    assert "has ended (status 7) while it worked on this batch" in str(found[20])
    assert [x.data for n, x in enumerate(found) if n != 20] == [n for n in range(60) if n != 20]


def busy_process(flow):
    """The process that works on something, once one does."""
    while True:
        for worker in flow._scheduler._workers:
            if worker.phase == "process" and worker.call.unit._is_busy:
                return worker.call.unit._process.pid


def test_a_process_that_is_killed_in_the_middle_costs_one_error():
    with flow_of(units.picky, threads=2) as flow:
        first = flow.create_stream_io()
        first.send("input", "wait")
        busy = busy_process(flow)
        assert [buffer.data for buffer in all_of(flow, range(50))] == list(range(50))
        os.kill(busy, signal.SIGKILL)
        with pytest.raises(modelflow.FlowUnitError, match=rf"process {busy} .*SIGKILL"):
            first.recv("output", timeout=30)
        first.close_input()
        assert [buffer.data for buffer in all_of(flow, range(50))] == list(range(50))
        assert busy not in children()


def test_of_a_batch_that_ends_its_process_only_the_guilty_item_fails():
    with flow_of(units.picky, batch=4, options=", batch_timeout_ms=10000") as flow:
        found = all_of(flow, ["a", "die", "c", "d"])
        assert [getattr(item, "data", None) for item in found] == ["a", None, "c", "d"]
        assert "while it worked on this batch" in str(found[1])
        assert all_of(flow, ["a", "b", "c", "d"])[3].data == "d"


def test_a_process_that_was_killed_while_idle_costs_no_item():
    with flow_of(units.picky) as flow:
        assert flow.infer("before").data == "before"
        (idle,) = children()
        os.kill(idle, signal.SIGKILL)
        os.waitid(os.P_PID, idle, os.WEXITED | os.WNOWAIT)
        assert flow.infer("after").data == "after"


def test_a_stop_without_draining_does_not_wait_for_a_process():
    flow = flow_of(units.picky, threads=2).start()
    stream = flow.create_stream_io()
    stream.send("input", "wait")
    busy_process(flow)
    stopping = threading.Thread(target=lambda: flow.stop(drain=False))
    stopping.start()
    stopping.join(60)
    assert not stopping.is_alive()


def test_a_unit_that_does_not_open_or_close_says_so(tmp_path):
    with pytest.raises(FlowFailed) as raised:
        flow_of(units.NOTING, threads=2, options=", is_failing=true").start()
    assert "RuntimeError: cannot open" in str(raised.value.exceptions[0])
    (tmp_path / "fail").touch()
    with (
        pytest.raises(FlowFailed) as raised,
        flow_of(units.NOTING, options=f', folder="{tmp_path}"') as flow,
    ):
        all_of(flow, [1])
    assert "RuntimeError: cannot close" in str(raised.value.exceptions[0])


def test_a_unit_that_another_process_cannot_make_says_what_to_do():
    @modelflow.flowunit
    def local(value):
        """Is nobody else's."""
        return value

    with pytest.raises(FlowFailed) as raised:
        flow_of(local).start()
    assert "define it in a module, not inside a function" in str(raised.value.exceptions[0])


@pytest.mark.parametrize(
    ("unit", "options", "what"),
    [
        ("video_decoder", ", workers=process", "is for normal units; this is a stream unit"),
        ("httpserver_sync_reply", ", workers=process", "needs its session at hand"),
    ],
)
def test_what_cannot_run_so_is_refused(unit, options, what):
    end = "" if unit == "httpserver_sync_reply" else "-> output"
    output = "output [type=output]" if end else ""
    node = f"n [flowunit={unit}{options}]"
    text = f"digraph {{ input [type=input] {node} {output} input -> n {end} }}"
    with pytest.raises(PlanError, match=what):
        modelflow.Flow(text).start()


def test_a_unit_of_a_folder_runs_in_processes(tmp_path):
    new_unit("my_unit", "normal", tmp_path)
    text = GRAPH.format(name="my_unit", threads=2, batch=2, options=", factor=3.0")
    path = tmp_path / "graph.toml"
    path.write_text(f"[driver]\ndir = ['.']\n[graph]\ngraphconf = '''{text}'''\n")
    with modelflow.Flow(path) as flow:
        assert [buffer.data for buffer in all_of(flow, [1.0, 2.0])] == [3.0, 6.0]


MAIN = """
import modelflow

@modelflow.flowunit
def double(value):
    'Doubles.'
    return 2 * value

graph = '''digraph { input [type=input]
    double [workers=process, threads=2] output [type=output] input -> double -> output }'''

def main():
    with modelflow.Flow(graph, units=[double]) as flow:
        print([flow.infer(n).data for n in range(5)])
GUARD
"""


@pytest.mark.parametrize("is_guarded", [True, False])
def test_a_unit_of_the_main_module(tmp_path, is_guarded):
    guard = 'if __name__ == "__main__":\n    main()' if is_guarded else "main()"
    script = tmp_path / "script.py"
    script.write_text(MAIN.replace("GUARD", guard))
    command = [sys.executable, str(script)]
    done = programs.run(command)
    if is_guarded:
        assert done.stdout.strip() == "[0, 2, 4, 6, 8]", done.stderr
    else:
        assert done.returncode != 0
        assert "put what starts the flow under: if __name__ == '__main__':" in done.stderr


ORPHANS = f"""
import sys; sys.path.insert(0, {str(ROOT)!r})
from tests.runtime.executors.test_process_unit import flow_of, units, children
flow = flow_of(units.picky, threads=2).start()
stream = flow.create_stream_io()
for _ in range(2):
    stream.send("input", "wait")
print(*children(), flush=True)
stream.recv("output")
"""


def test_nothing_outlives_a_flow_whose_process_is_killed(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(ORPHANS)
    command = [sys.executable, str(script)]
    with programs.started(command, stdout=subprocess.PIPE, text=True) as parent:
        pids = [int(text) for text in parent.stdout.readline().split()]
        assert len(pids) == 2
        ends = [os.pidfd_open(pid) for pid in pids]
        parent.kill()
        parent.wait()
        for end in ends:
            assert select.select([end], [], [], programs.LIMIT)[0], "a process is left"
            os.close(end)


@pytest.mark.parametrize("name", units.ENDINGS)
def test_whatever_a_unit_raises_there_fails_its_own_item_and_the_process_goes_on(name):
    with flow_of(units.ends_by) as flow:
        process = flow.infer("good").data
        with pytest.raises(modelflow.FlowUnitError, match="of the item's own") as caught:
            flow.infer(name)
        assert name in str(caught.value)
        assert flow.infer("good").data == process


def test_a_process_whose_unit_hangs_in_close_is_killed_and_named(monkeypatch):
    monkeypatch.setattr("modelflow.runtime.executors.process_unit._CLOSE_TIMEOUT", 0.2)
    flow = flow_of(units.HANGS_IN_CLOSE).start()
    process = flow.infer(1).data
    with pytest.raises(FlowFailed) as caught:
        flow.stop()
    (error,) = caught.value.exceptions
    assert "the unit's close() did not return within 0.2 s" in str(error)
    assert f"process {process} was killed" in str(error)
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_a_process_looks_for_modules_where_the_flow_did_before_its_threads_ran(
    tmp_path, monkeypatch
):
    """A library may change ``sys.path`` while another node's thread imports it, as OpenCV does."""
    (tmp_path / "typing.py").write_text("raise ImportError('not the typing of Python')")
    flow = flow_of(units.process_id).build()
    monkeypatch.syspath_prepend(tmp_path)
    with flow:
        assert flow.infer(1).data != os.getpid()


@pytest.mark.parametrize("drain", [True, False])
def test_a_stop_while_a_process_opens_is_no_failure(tmp_path, drain):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    flow = flow_of(units.HANGS_IN_OPEN, options=f', folder="{pipe}"').build()
    starting = threading.Thread(target=flow.start_run)
    starting.start()
    assert pipe.read_text() == "opening"
    flow.stop(drain)
    starting.join(30)
    assert not starting.is_alive()
    flow.stop()
    assert not flow.is_running
