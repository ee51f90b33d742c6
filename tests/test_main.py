"""Tests of the program's start."""

import signal
import sys

from tests import programs

INTERRUPTED = """
import signal, sys

class Interrupting:
    @staticmethod
    def find_spec(name, *_):
        if name == "{module}":
            print("loading", flush=True)
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupting)
sys.argv = ["modelflow", "version"]
{before}
from modelflow.__main__ import main
main()
"""


def begun(before="", module="modelflow.cli.main"):
    text = INTERRUPTED.format(before=before, module=module)
    done = programs.run([sys.executable, "-c", text], text=True)
    return done.returncode, done.stdout.splitlines()[0], done.stderr


def test_a_ctrl_c_while_the_program_is_loaded_ends_it_without_a_word():
    assert begun() == (-signal.SIGINT, "loading", "")


def test_a_ctrl_c_while_a_command_is_loaded_stops_it():
    assert begun(module="modelflow.cli.version") == (130, "loading", "\nstopped\n")


def test_a_ctrl_c_that_is_ignored_stays_so():
    ignored = "signal.signal(signal.SIGINT, signal.SIG_IGN)"
    assert begun(ignored) == (0, "loading", "")


def test_a_ctrl_c_is_raised_once_the_program_is_loaded():
    text = """
import signal, sys
import modelflow.cli.main
modelflow.cli.main.main = lambda: print(signal.getsignal(signal.SIGINT).__name__)
from modelflow.__main__ import main
main()
"""
    done = programs.run([sys.executable, "-c", text], text=True)
    assert done.stdout == "default_int_handler\n", done.stderr
