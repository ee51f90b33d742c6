"""Tests of process units: equal results, and no resource left behind however a process ends."""

import contextlib
import os
import pickle
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import modelflow
from modelflow.device import CPU
from modelflow.errors import FlowFailed, PlanError, WorkerProcessError
from modelflow.ipc import process as processes
from modelflow.ipc.memory_channel import open_channel
from modelflow.runtime.stages.executors.child import Answer, Item, Job
from modelflow.runtime.stages.executors.process_unit import ProcessUnit
from modelflow.starters.template import write_template
from modelflow.unit.unit import Context
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
    """Returns the unit processes of this process."""
    command = ["ps", "--ppid", str(os.getpid()), "-ww", "-o", "pid=", "-o", "args="]
    listed = programs.run(command)
    return [int(x.split()[0]) for x in listed.stdout.splitlines() if "executors.child" in x]


def opened():
    """Returns the targets of this process's descriptors, except for the listing's own."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(f"/proc/self/fd/{name}"))
    return found


@pytest.fixture(autouse=True)
def _nothing_is_left():
    descriptors = opened()
    yield
    assert not children()
    assert sorted(opened()) == sorted(descriptors)  # a shared memory is a descriptor without a name


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


def test_a_view_of_bytes_crosses_as_bytes_both_ways():
    with flow_of(units.tail) as flow:
        (found,) = all_of(flow, [memoryview(b"a.b.c.d")[::2]])
    assert found.data == b"bcd"


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
        assert buffer.get("kind") == n  # inherited here, as usual
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


def test_a_coroutine_of_a_unit_in_a_process_is_an_error_with_its_line():
    with flow_of(units.awaits_nothing) as flow:
        (error,) = all_of(flow, [1])
    line = units._later.__code__.co_firstlineno
    assert "got a coroutine of 'async def _later'" in str(error)
    assert f"process_units.py:{line}); expected a value" in str(error)


def test_a_value_that_cannot_be_sent_or_read_there_costs_no_process():
    odd = [units.Uncrossing("sent"), units.Uncrossing("read")]
    with flow_of(units.picky) as flow:
        processes_before = children()
        found = all_of(flow, ["a", *odd, "b"])
        assert children() == processes_before
    assert [getattr(item, "data", None) for item in found] == ["a", None, None, "b"]
    assert "EOFError: cannot be sent" in str(found[1])
    assert "EOFError: cannot be read" in str(found[2])


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
    """Waits until a worker's process is busy, and returns its process id."""
    while True:
        for worker in flow.scheduler._workers:
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
        """Returns its input; the unit exists only in this test module."""
        return value

    with pytest.raises(FlowFailed) as raised:
        flow_of(local).start()
    assert "define it in a module, not inside a function" in str(raised.value.exceptions[0])


@pytest.mark.parametrize("words", [("-c",), ("-",)])
def test_a_unit_of_a_program_without_a_file_says_what_to_do(words):
    text = (
        "import modelflow\n"
        "@modelflow.flowunit\n"
        "def double(number): return 2 * number\n"
        "graph = 'digraph { a [type=input] double [workers=process] b [type=output] "
        "a -> double -> b }'\n"
        "modelflow.Flow(graph, units=[double]).start()\n"
    )
    more = [text] if words == ("-c",) else []
    done = programs.run(["python", *words, *more], input=text)
    assert done.returncode == 1
    assert (
        "node 'double': workers='process': unit 'double' is defined in a notebook, a console or a "
        "text, which its process cannot import; move it to units.py, and: import units"
    ) in done.stderr


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
    write_template("unit", "normal", "my_unit", tmp_path)
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
from tests.runtime.stages.executors.test_process_unit import flow_of, units, children
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


def test_whatever_a_unit_raises_there_fails_its_own_item_and_the_process_goes_on():
    with flow_of(units.ends_by) as flow:
        process = flow.infer("good").data
        for name in units.ENDINGS:
            with pytest.raises(modelflow.FlowUnitError, match="of the item's own") as caught:
                flow.infer(name)
            assert name in str(caught.value)
            assert flow.infer("good").data == process


def test_a_process_whose_unit_hangs_in_close_is_killed_and_named(monkeypatch):
    monkeypatch.setattr("modelflow.ipc.process.END_TIMEOUT", 0.2)
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
    """Tests the search path while another node's import changes ``sys.path``, as OpenCV's does."""
    (tmp_path / "typing.py").write_text("raise ImportError('not the typing of Python')")
    flow = flow_of(units.process_id)
    assert flow.scheduler.plan.stages
    monkeypatch.syspath_prepend(tmp_path)
    with flow:
        assert flow.infer(1).data != os.getpid()


@pytest.mark.parametrize("drain", [True, False])
def test_a_stop_while_a_process_opens_is_no_failure(tmp_path, drain):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    flow = flow_of(units.HANGS_IN_OPEN, options=f', folder="{pipe}"')
    assert not flow.scheduler.is_running
    starting = threading.Thread(target=flow.start)
    starting.start()
    assert pipe.read_text() == "opening"
    flow.stop(drain)
    starting.join(30)
    assert not starting.is_alive()
    flow.stop()
    assert not flow.is_running


# -- this side alone, with a stand-in for the process ---------------------------------------------


class Elsewhere:
    """A process and its channel as the unit sees them: requests, and prepared answers."""

    pid = 77

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked, self.done, self.limits = [], [], []
        self.returncode = None

    def __call__(self, command, **options):  # as `Popen`
        self.command, self.options = command, options
        return self

    def poll(self):
        return self.returncode

    def kill(self):
        self.done.append("kill")
        self.returncode = -signal.SIGKILL

    def wait(self, timeout=None):
        self.done.append(("wait", timeout))
        if timeout is not None and "hangs" in self.answers:
            raise subprocess.TimeoutExpired("unit", timeout)
        self.returncode = self.returncode or 0

    def send(self, message):
        self.asked.append(message)

    def receive(self, timeout=None):
        self.limits.append(timeout)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self):
        self.done.append("close")


@pytest.fixture
def unit_in(monkeypatch):
    """Makes an unopened unit whose process is the given stand-in."""

    def made(elsewhere, search_path=("/one", "", "/two"), spec=units.IN_PLACE):
        system = SimpleNamespace(**{**vars(subprocess), "Popen": elsewhere})
        monkeypatch.setattr(processes, "subprocess", system)
        if isinstance(elsewhere, Elsewhere):
            monkeypatch.setattr(processes, "open_channel", lambda: _ends_with(elsewhere))
        unit = ProcessUnit(spec, "work", search_path)
        unit.device, unit.batch_size = CPU, 3
        return unit

    return made


def _ends_with(elsewhere):
    channel, theirs = open_channel()
    channel.close()
    return elsewhere, theirs


GOOD = (True, {})
DONE = (True, Answer({}, 0.1))


def test_a_process_is_told_what_to_prepare_and_what_it_is_for(unit_in):
    there = Elsewhere(GOOD)
    unit_in(there).open("options")
    ((preparation, job),) = there.asked
    assert preparation["name"] == "modelflow/work"
    assert preparation["sys_path"] == ["/one", preparation["orig_dir"], "/two"]
    assert not {"authkey", "init_main_from_name", "init_main_from_path"} & set(preparation)
    assert pickle.loads(job) == Job(units.InPlace, "options", CPU, 3, frozenset({"in"}), ("out",))
    assert there.limits == [None]


def test_a_process_has_its_ends_its_parent_its_modules_and_no_input(unit_in, monkeypatch):
    monkeypatch.setenv("SEEN", "there")
    there = Elsewhere(GOOD)
    unit_in(there).open(None)
    program, flag, text, *given = there.command
    assert (program, flag) == (sys.executable, "-c")
    assert text == (
        "import sys; from modelflow.runtime.stages.executors.child import main; main(sys.argv[1:])"
    )
    assert given == [*map(str, there.options["pass_fds"]), str(os.getpid())]
    assert there.options["stdin"] == subprocess.DEVNULL
    assert there.options["env"]["PYTHONPATH"] == f"/one{os.pathsep}/two"
    assert there.options["env"]["SEEN"] == "there"


def test_a_process_that_cannot_be_started_leaves_no_descriptor(unit_in):
    def refuse(*_, **__):
        raise OSError("no more processes")

    with pytest.raises(OSError, match="no more processes"):  # the fixture checks for leftovers
        unit_in(refuse).open(None)


def test_a_process_whose_unit_does_not_open_is_ended(unit_in):
    there = Elsewhere((False, OSError("no model")))
    unit = unit_in(there)
    with pytest.raises(OSError, match="no model"):
        unit.open(None)
    assert there.done == ["close", ("wait", 5.0)]
    assert unit._process is None
    unit.close()  # nothing is open
    assert len(there.asked) == 1


def test_a_unit_that_was_not_opened_closes_nothing(unit_in):
    there = Elsewhere()
    unit_in(there).close()
    assert (there.asked, there.done) == ([], [])


def test_a_batch_goes_there_and_comes_back_by_its_ports(unit_in):
    answer = {"out": [Item(5, {"k": 1}), 6], "more": [7]}
    there = Elsewhere(GOOD, (True, Answer(answer, 0.1)))
    unit = unit_in(there)
    unit.open(None)
    inputs = {"in": [modelflow.Buffer(1, {"m": 2})], "other": [modelflow.Buffer(3)]}
    context = Context(inputs, {"out": [], "more": []})
    unit.process(context)
    assert there.asked[1] == {
        "in": [Item(1, {"m": 2})],
        "other": [Item(3, inputs["other"][0].meta)],
    }
    first, second = context.outputs["out"]
    assert (first.data, first.get("k"), second, context.outputs["more"]) == (5, 1, 6, [7])
    assert unit._is_busy is False


@pytest.mark.parametrize(
    ("error", "status", "how"),
    [
        (EOFError("gone"), 7, "status 7"),
        (BrokenPipeError("gone"), 0, "status 0"),
        (EOFError("gone"), -9, "SIGKILL"),
    ],
)
def test_a_process_that_has_ended_says_how_and_is_cleared_away(
    unit_in, monkeypatch, error, status, how
):
    there = Elsewhere(GOOD, error)
    unit = unit_in(there)
    unit.open(None)
    monkeypatch.setattr(there, "wait", lambda timeout: setattr(there, "returncode", status))
    with pytest.raises(
        WorkerProcessError, match=rf"process 77 of node 'work' .*\({how}\)"
    ) as caught:
        unit.process(Context({"in": []}, {"out": []}))
    assert caught.value.__cause__ is error
    assert (unit._process, unit._is_busy) == (None, False)


def test_a_process_that_ended_while_idle_is_replaced_and_one_that_runs_is_not(unit_in):
    there = Elsewhere(GOOD, DONE, GOOD, DONE)
    unit = unit_in(there)
    unit.open(None)
    unit.process(Context({}, {}))
    assert there.done == []
    there.returncode = 0
    unit.process(Context({}, {}))
    assert there.done == ["close", ("wait", 5.0)]
    assert len(there.asked) == 4


def test_a_process_that_does_not_end_with_its_channel_is_killed(unit_in):
    there = Elsewhere(GOOD, DONE, "hangs")
    unit = unit_in(there)
    unit.open(None)
    unit.close()
    assert there.limits == [None, 5.0]
    assert there.done == ["close", ("wait", 5.0), "kill", ("wait", None)]


def test_a_unit_that_was_interrupted_sends_nothing_and_one_that_is_closed_is_let(unit_in):
    there = Elsewhere(GOOD, GOOD)
    unit = unit_in(there)
    unit.open(None)
    unit.interrupt()
    assert there.done == []  # the process was not busy
    with pytest.raises(WorkerProcessError, match="node 'work': the flow ends"):
        unit.process(Context({}, {}))
    unit.close()
    assert there.asked[1:] == [None]
    assert "kill" not in there.done


@pytest.mark.parametrize("is_before", [True, False])
def test_a_call_that_is_interrupted_has_its_process_killed(unit_in, monkeypatch, is_before):
    there = Elsewhere(GOOD, EOFError("killed"))
    unit = unit_in(there)
    unit.open(None)

    def interrupted(message):
        assert unit._is_busy
        if not is_before:
            unit.interrupt()

    monkeypatch.setattr(there, "send", interrupted)
    unit._is_interrupted = is_before
    with pytest.raises(WorkerProcessError):
        unit._request({})
    assert there.done.count("kill") == 1


def test_nothing_is_started_while_the_main_module_is_imported(unit_in, monkeypatch):
    monkeypatch.setattr(processes.Preparation, "is_so", True)
    with pytest.raises(PlanError, match=r"node 'work': .*if __name__ == '__main__'"):
        unit_in(Elsewhere()).open(None)


def test_a_unit_of_the_main_module_has_it_imported_there(unit_in, monkeypatch):
    there = Elsewhere(GOOD)
    keys = ("init_main_from_name", "init_main_from_path")
    given = {"name": "x", "orig_dir": "/o", "sys_path": [], **dict.fromkeys(keys, "main.py")}
    monkeypatch.setattr(processes.spawn, "get_preparation_data", lambda name: dict(given))
    unit = unit_in(there)
    monkeypatch.setattr(unit, "_job", lambda: b"of __main__")
    unit.open(None)
    ((preparation, _),) = there.asked
    assert [preparation[key] for key in keys] == ["main.py"] * 2


def test_rows_that_share_an_array_share_nothing_that_may_be_written():
    text = np.array(["a", "b"], object)
    with flow_of(units.hand_over, batch=4) as flow:
        answers = all_of(flow, [text] * 8)
    assert [answer.data.tolist() for answer in answers] == [["a", "b"]] * 8
    assert not any(answer.data.flags.writeable for answer in answers)
