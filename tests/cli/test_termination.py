"""Signals to a program whose main thread waits, in a process of its own."""

import signal
import subprocess
import sys

import pytest

from tests import programs

# A thread that waits for a mutex of C is woken by no signal.
SCRIPT = """
import ctypes, threading
from modelflow.signals import termination

def work():
    print("ready", flush=True)
    {until}
    libc.pthread_mutex_unlock(mutex)

libc, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64)
asked, done, hung_up = threading.Event(), threading.Event(), threading.Event()
libc.pthread_mutex_lock(mutex)
with termination(asked, {finish}, hung_up.set):
    threading.Thread(target=work).start()
    libc.pthread_mutex_lock(mutex)
    print("done", asked.is_set(), done.is_set(), hung_up.is_set(), flush=True)
"""


def told(text, *numbers):
    """Sends signals to a program after its first line; returns its further output and exit code."""
    # From Python 3.12, a fork beside another thread warns: the units that fork here know it.
    command = [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", text]
    with programs.started(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "ready\n"
        for number in numbers:
            process.send_signal(number)
        # Not by `communicate`, which would lose any output that was read ahead with the first line.
        said, complained = process.stdout.read(), process.stderr.read()
        return said, complained, process.wait(programs.LIMIT)


def test_a_termination_is_noticed_whatever_the_main_thread_waits_for():
    found = told(SCRIPT.format(until="done.wait()", finish="done.set"), signal.SIGTERM)
    assert found == ("done True True False\n", "", 0)


def test_a_hangup_is_told_without_an_end():
    found = told(SCRIPT.format(until="hung_up.wait()", finish="done.set"), signal.SIGHUP)
    assert found == ("done False False True\n", "", 0)


def test_a_second_termination_ends_the_process():
    text = SCRIPT.format(until="asked.wait()", finish="threading.Event().wait")
    text += "print('not here')"
    with programs.started(
        [sys.executable, "-c", text], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "done True False False\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(programs.LIMIT) in (143, -signal.SIGTERM)
        assert process.stdout.read() == ""


def test_signals_of_a_process_that_a_unit_forks_are_its_own():
    text = """
import os, signal, threading
from modelflow.signals import termination
asked = threading.Event()
with termination(asked, print, print):
    ready, told = os.pipe()
    child = os.fork()
    if not child:
        os.write(told, b"!")
        signal.pause()
        os._exit(0)
    os.read(ready, 1)
    print("ready", flush=True)
    os.kill(child, signal.SIGTERM)
    print(os.WTERMSIG(os.waitpid(child, 0)[1]), asked.is_set())
"""
    assert told(text) == (f"{signal.SIGTERM} False\n", "", 0)


@pytest.mark.parametrize("fork", ["os.fork()", "ctypes.CDLL(None).fork()"])
def test_a_process_that_lives_on_does_not_hold_up_the_end(fork):
    text = f"""
import ctypes, os, signal, threading
from modelflow.signals import termination
done = threading.Event()
with termination(threading.Event(), done.set):
    child = {fork}
    if not child:
        signal.pause()
        os._exit(0)
    print("ready", flush=True)
    done.wait()
os.kill(child, signal.SIGKILL)
print("over")
"""
    assert told(text, signal.SIGTERM) == ("over\n", "", 0)


def test_an_interrupt_is_raised_in_the_main_thread_and_nothing_is_left():
    text = """
import signal, threading
from modelflow.signals import termination
before = [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT, signal.SIGWINCH)]
try:
    with termination(threading.Event(), print):
        print("ready", flush=True)
        threading.Event().wait()
except KeyboardInterrupt:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    print("interrupted", threading.active_count(), signal.set_wakeup_fd(-1))
"""
    assert told(text, signal.SIGINT) == ("interrupted 1 -1\n", "", 0)


WHEREVER = """
import signal, sys, threading
from modelflow.signals import termination

class Interrupting:
    def __init__(self, *lines):
        self.left, self.lines, self.is_over = lines, 0, False

    def __call__(self, frame, what, _):
        if not frame.f_code.co_filename.endswith("signals.py"):
            return None
        if what == "line":
            self.lines += 1
            if self.lines in self.left:
                signal.raise_signal(signal.SIGINT)
        return self

def use(interrupting):
    try:
        sys.settrace(interrupting)
        try:
            with termination(threading.Event(), print, print):
                pass
        finally:
            sys.settrace(None)
    except KeyboardInterrupt:
        return True
    return False

least = 30
"""

# Follows a program that defines `use`, `Interrupting` and `least`, the minimum of output lines.
EVERYWHERE = """
numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGWINCH, signal.SIGHUP)
before = [signal.getsignal(number) for number in numbers]
counting = Interrupting()
assert not use(counting)
assert counting.lines > least
print("ready", flush=True)
for line in range(1, counting.lines + 1):
    several = range(line, line + 4)
    for lines in ((line,), (line, line + 1), (line, line + 7), (line, line + 9), several):
        interrupting = Interrupting(*lines)
        # How many lines it takes differs: a thread may have begun before it is waited for, or not.
        assert use(interrupting) or interrupting.lines < lines[0], lines
        assert threading.active_count() == 1, (lines, threading.enumerate())
        assert [signal.getsignal(number) for number in numbers] == before, lines
        assert signal.set_wakeup_fd(-1) == -1, lines
print("done")
"""


def test_wherever_a_ctrl_c_comes_nothing_is_left():
    assert told(WHEREVER + EVERYWHERE) == ("done\n", "", 0)


LOST = """
import signal, sys, threading
from modelflow.signals import termination

class Terminating:
    def __init__(self, line):
        self.left, self.lines = line, 0

    def __call__(self, frame, what, _):
        if not frame.f_code.co_filename.endswith("signals.py"):
            return None
        if what == "line":
            self.lines += 1
            if self.lines == self.left:
                signal.raise_signal(signal.SIGTERM)
        return self

def use(line):
    asked, before = threading.Event(), []
    signal.signal(signal.SIGTERM, lambda *_: before.append(1))
    terminating = Terminating(line)
    sys.settrace(terminating)
    try:
        with termination(asked, lambda: None):
            asked.wait(0 if before or line > terminating.lines else 100)
    finally:
        sys.settrace(None)
    return terminating.lines, asked.is_set() + len(before)

lines, _ = use(10**6)
print("ready", flush=True)
for line in range(1, lines + 1):
    assert use(line)[1] >= 1, line
print("done")
"""


def test_wherever_a_termination_comes_it_is_noticed():
    assert told(LOST) == ("done\n", "", 0)


def test_several_interrupts_at_once_are_one_and_the_end_comes():
    text = """
import signal, threading
from modelflow.signals import termination
try:
    with termination(threading.Event(), print):
        print("ready", flush=True)
        threading.Event().wait()
except KeyboardInterrupt:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    print("interrupted")
"""
    said, complained, code = told(text, *[signal.SIGINT] * 5)
    assert (said, code) in (("interrupted\n", 0), ("", 1), ("", -signal.SIGINT))
    assert "modelflow" not in complained or "KeyboardInterrupt" in complained


# A context with its own thread, like the contexts that `run`, `serve` and other commands enter.
BESIDE = """
import os, signal, sys, threading
from modelflow.signals import Undisturbed, termination, call_undisturbed

def fail(*error):  # at once: a thread that was left would keep the program
    sys.__excepthook__(*error)
    sys.stderr.flush()
    os._exit(1)

sys.excepthook = fail

class Beside:
    def __init__(self):
        self.over, self.threads = threading.Event(), []

    def start(self):
        self.threads.append(threading.Thread(target=self.over.wait))
        self.threads[-1].start()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        for thread in self.threads:
            thread.join()

def use(interrupting):
    sys.settrace(interrupting)
    try:
        with termination(threading.Event(), {finish}), Undisturbed(Beside()) as beside:
            call_undisturbed(beside.start)
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    return False

class Interrupting:
    def __init__(self, *lines):
        self.left, self.lines = lines, 0

    def __call__(self, frame, what, _):
        path, name = frame.f_code.co_filename, frame.f_code.co_name
        is_traced = path.endswith(("signals.py", "threading.py")) or path == "<string>"
        if not is_traced or name == "use":
            return None
        if what == "line" and threading.current_thread() is threading.main_thread():
            self.lines += 1
            if self.lines in self.left:
                signal.raise_signal(signal.SIGINT)
        return self

least = 60
"""


@pytest.mark.parametrize("finish", ["print", "None"])
def test_what_has_threads_of_its_own_is_entered_or_not_wherever_a_ctrl_c_comes(finish):
    assert told(BESIDE.format(finish=finish) + EVERYWHERE) == ("done\n", "", 0)


def test_who_asks_again_a_second_later_is_heard_at_once():
    text = """
import contextlib, signal, threading
from modelflow import signals as termination

now = 100.0
termination.time.monotonic = lambda: now

@contextlib.contextmanager
def slow():
    global now
    yield
    signal.raise_signal(signal.SIGINT)
    now += 0.5
    signal.raise_signal(signal.SIGINT)
    print("ready", flush=True)
    now += 0.6
    signal.raise_signal(signal.SIGINT)
    print("not here")

try:
    with termination.termination(threading.Event(), print), termination.Undisturbed(slow()):
        pass
except KeyboardInterrupt:
    print("interrupted")
with termination.termination(threading.Event(), print), termination.Undisturbed(slow()):
    break_off = None
"""
    said, complained, code = told(text)
    assert said == "interrupted\nready\n"
    assert complained.splitlines()[-1] == "KeyboardInterrupt"
    assert code in (130, -signal.SIGINT)


def test_a_ctrl_c_is_raised_though_what_was_not_to_be_disturbed_has_failed():
    text = """
import signal, threading
from modelflow.signals import Undisturbed, termination, call_undisturbed

def fail():
    signal.raise_signal(signal.SIGINT)
    raise ValueError("no good")

class Failing:
    def __init__(self, *methods):
        self.methods = methods

    def __enter__(self):
        if "enter" in self.methods:
            fail()

    def __exit__(self, *_):
        if "exit" in self.methods:
            fail()

print("ready", flush=True)
with termination(threading.Event(), print):
    for act in (
        lambda: call_undisturbed(fail),
        lambda: Undisturbed(Failing("enter")).__enter__(),
        lambda: Undisturbed(Failing("exit")).__exit__(None, None, None),
    ):
        try:
            act()
        except KeyboardInterrupt as error:
            print(error.__context__)
"""
    assert told(text) == ("no good\n" * 3, "", 0)
