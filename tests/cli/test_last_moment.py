"""Tests of programs that must end, each in its own process."""

import signal
import subprocess
import sys

import pytest

from tests import programs
from tests.serve.processes.server_processes import write_graphs

HEAD = """
import atexit, threading
from modelflow.signals import end_within, limit_exit, release_at_end

class Hangs:
    def __del__(self):
        threading.Event().wait()
"""


def ended(text):
    """Returns the exit code of a program, and its output."""
    done = subprocess.run(
        [sys.executable, "-c", HEAD + text],
        capture_output=True,
        text=True,
        timeout=programs.LIMIT,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    "text",
    [
        "with release_at_end():\n    end_within(0.2)\n    threading.Event().wait()",
        "with release_at_end():\n    end_within(0.2)\n    end_within(1000)\n    Hangs()",
        "with release_at_end():\n    end_within(0.2)\natexit.register(Hangs)\nlimit_exit()",
        # and this thread keeps the interpreter's lock
        "with release_at_end():\n    end_within(0.2)\n    sum(range(10**15))",
    ],
)
def test_whatever_hangs_the_process_ends_and_says_where_it_was(text):
    code, said = ended(text)
    assert (code, "most recent call first" in said) == (1, True)


@pytest.mark.parametrize("end", ["", "limit_exit()"])
def test_what_ends_in_time_goes_on(end):
    text = f"with release_at_end():\n    end_within(1000)\n{end}\nprint('over')"
    assert ended(text) == (0, "over\n")


def test_a_program_that_was_not_to_end_goes_on():
    text = "with release_at_end():\n    end_within(0.1)\nthreading.Event().wait(0.3)\n"
    text += "with release_at_end():\n    limit_exit()\nprint('over')"
    assert ended(text) == (0, "over\n")


def test_a_server_ends_that_does_not_hear_of_the_end_of_its_processes(tmp_path):
    text = """
import asyncio, sys
from modelflow.cli.main import main
from modelflow.serve.processes.supervisor.child import ChildServer

async def never(self):
    await asyncio.Event().wait()

ChildServer.wait_until_ended = never
sys.argv[1:] = "serve m.dot --replicas 2 --http 127.0.0.1:0 --grpc off --drain-timeout 0.1".split()
main()
"""
    command = [sys.executable, "-c", text]
    folder = write_graphs(tmp_path)
    with programs.started(command, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        assert "serves m at" in next(line for line in process.stderr if "serves" in line)
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=programs.LIMIT)[1]
        assert (process.returncode, "most recent call first" in said) == (1, True)
