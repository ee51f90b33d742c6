"""Tests that a process with flows always ends."""

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import threading

import pytest

from modelflow.errors import FlowFailed
from modelflow.runtime import lifecycle as at_exit
from tests import programs

SETUP = """
import os, signal, sys, threading, time
import modelflow
from modelflow import Flow, flowunit

G = "digraph { input[type=input] u[threads=1] output[type=output] input->u->output }"
inside = threading.Event()

@flowunit(name="u")
def u(value):
    if value == "hang":
        inside.set()
        threading.Event().wait()
    return value

def flow(**more):
    return Flow(G, units=[u], **more)

"""
# The limit after which a hanging program is ended, and the test fails.
LIMIT = 120.0


def run(text, *, limit=LIMIT):
    """Runs a program that must end by itself; returns its status, output words, and errors."""
    done = programs.run([sys.executable, "-c", SETUP + textwrap.dedent(text)], limit=limit)
    return done.returncode, done.stdout.split(), done.stderr


def test_a_flow_that_is_forgotten_is_stopped_and_its_units_are_closed():
    status, said, errors = run(
        """
        class U(modelflow.FlowUnit):
            SPEC = modelflow.FlowUnitSpec("u", {"cpu": lambda: U()},
                inputs=(modelflow.Port("in"),), outputs=(modelflow.Port("out"),))
            def process(self, ctx):
                ctx.emit([b.data for b in ctx.input()])
            def close(self):
                print("closed", flush=True)

        f = Flow(G, units=[U]).start()
        print(f.infer(1).data)
        """
    )
    assert (status, said) == (0, ["1", "closed"]), errors


def test_a_process_whose_unit_hangs_ends_and_names_the_node():
    status, said, errors = run(
        """
        f = flow(stop_timeout=0.5).start()
        f.create_stream_io().send("input", "hang")
        inside.wait()
        print("end", flush=True)
        """
    )
    assert (status, said) == (0, ["end"]), errors
    assert "node 'u'" in errors
    assert "did not return within 0.5 s of being told to stop" in errors


def test_a_process_that_was_told_that_a_unit_hangs_ends():
    status, said, errors = run(
        """
        f = flow(stop_timeout=0.5).start()
        f.create_stream_io().send("input", "hang")
        inside.wait()
        try:
            f.stop()
        except modelflow.FlowFailed:
            print("failed", flush=True)
        """
    )
    assert (status, said) == (0, ["failed"]), errors


def test_a_stream_of_the_parent_is_refused_in_a_forked_process():
    status, said, errors = run(
        """
        with flow() as f:
            s = f.create_stream_io()
            s.send("input", 1)
            if not os.fork():
                for call in (lambda: s.recv(), lambda: s.send("input", 2), lambda: s.close_input(),
                             lambda: s.wait(), lambda: f.infer(1)):
                    try:
                        call()
                    except modelflow.StreamClosed as error:
                        print("fork" in str(error), flush=True)
                s.cancel()
                f.stop()
                sys.exit(7)
            print(os.waitstatus_to_exitcode(os.wait()[1]), s.recv().data, flush=True)
        """
    )
    assert (status, said) == (0, [*["True"] * 5, "7", "1"]), errors


def test_a_flow_made_after_the_fork_runs_in_the_child():
    status, said, errors = run(
        """
        with flow() as f:
            f.infer(1)
            if not os.fork():
                with flow() as own:
                    print(own.infer(3).data, flush=True)
                sys.exit(0)
            print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
        """
    )
    assert (status, said) == (0, ["3", "0"]), errors


@pytest.mark.parametrize("how", ["infer", "send and recv"])
def test_a_signal_handler_may_ask_for_the_stop_while_the_main_thread_is_in_a_call(how):
    call = "f.infer(1)" if how == "infer" else 's.send("input", 1); s.recv()'
    status, said, errors = run(
        f"""
        sys.setswitchinterval(1e-5)
        for turn in range(15):
            f = flow().start()
            s = f.create_stream_io()
            signal.signal(signal.SIGALRM, lambda *_: f.stop(wait=False))
            signal.setitimer(signal.ITIMER_REAL, 0.002 * (turn + 1))
            try:
                while True:
                    {call}
            except (modelflow.StreamClosed, modelflow.Cancelled, modelflow.EndOfStream):
                pass
            f.stop()
            print(f.is_running, flush=True)
        """
    )
    assert (status, said) == (0, ["False"] * 15), errors


def test_ctrl_c_while_a_unit_opens_for_ever_ends_the_process():
    text = SETUP + textwrap.dedent(
        """
        class U(modelflow.FlowUnit):
            SPEC = modelflow.FlowUnitSpec("u", {"cpu": lambda: U()},
                inputs=(modelflow.Port("in"),), outputs=(modelflow.Port("out"),))
            def open(self, config):
                print("opens", flush=True)
                threading.Event().wait()

        Flow(G, units=[U], stop_timeout=0.5).start()
        """
    )
    command = [sys.executable, "-c", text]
    pipe = {"stdout": -1, "stderr": -1, "text": True}
    with programs.started(command, **pipe) as process:
        assert process.stdout.readline() == "opens\n"
        errors = interrupted(process)
    assert process.returncode != 0
    assert "KeyboardInterrupt" in errors
    assert "did not return within 0.5 s" in errors


def interrupted(process):
    """Sends Ctrl-C until the program has ended; returns its standard error.

    CPython looks for signals shortly before its main thread sleeps on a lock. A signal that arrives
    between the two is handled together with the next signal.
    """
    for _ in range(10):
        os.kill(process.pid, signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=LIMIT / 10)[1]
    return process.communicate(timeout=LIMIT)[1]


class Forgotten:
    """A stand-in for a flow with only the members that `at_exit` uses."""

    def __init__(self, is_stopped=False, error=None):
        self.is_stopped, self.error, self.told = is_stopped, error, []

    def stop(self, drain=True):
        self.told.append(("stop", drain))
        if self.error is not None:
            raise self.error

    def disown(self):
        self.told.append("disown")


@pytest.fixture
def hooks(monkeypatch):
    """Returns the callbacks that `at_exit` registers with the interpreter at the first flow."""
    found = []
    monkeypatch.setattr(at_exit, "_running", set())
    monkeypatch.setattr(at_exit, "_lock", threading.Lock())
    monkeypatch.setattr(at_exit, "_is_registered", False)
    monkeypatch.setattr(threading, "_register_atexit", found.append)
    monkeypatch.setattr(os, "register_at_fork", lambda **given: found.append(given))
    return found


def test_the_interpreter_is_asked_once_whatever_the_number_of_flows(hooks):
    flows = {Forgotten() for _ in range(3)}
    for flow in flows:
        at_exit.stop_at_exit(flow)
    assert set(at_exit._running) == flows
    assert hooks == [at_exit._stop_all, {"after_in_child": at_exit._disown_all}]


def test_every_flow_that_runs_is_stopped_at_once_and_one_that_fails_is_named(monkeypatch, caplog):
    failing = Forgotten(error=FlowFailed("no good", [ValueError("bad")]))
    flows = [Forgotten(is_stopped=True), failing, Forgotten()]
    monkeypatch.setattr(at_exit, "_running", flows)
    at_exit._stop_all()
    assert [flow.told for flow in flows] == [[], [("stop", False)], [("stop", False)]]
    (record,) = caplog.records
    assert "still running at exit failed" in record.getMessage()
    assert record.exc_info[1] is failing.error


@pytest.mark.usefixtures("hooks")
def test_in_a_fork_no_flow_of_the_parent_is_its_own_and_a_held_lock_holds_nobody():
    flow, other = Forgotten(), Forgotten()
    at_exit.stop_at_exit(flow)
    with at_exit._lock:
        at_exit._disown_all()
        at_exit.stop_at_exit(other)
    assert (flow.told, other.told) == (["disown"], [])
    assert set(at_exit._running) == {other}
