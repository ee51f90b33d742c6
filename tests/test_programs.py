import os
import select
import subprocess
import sys

import pytest

from tests import programs

PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
print(child.pid, flush=True)
child.wait()
"""


def has_ended(end):
    return bool(select.select([end], [], [], programs.LIMIT)[0])


def test_what_a_program_has_started_ends_with_the_block():
    command = [sys.executable, "-c", PARENT]
    with programs.started(command, stdout=subprocess.PIPE) as process:
        end = os.pidfd_open(int(process.stdout.readline()))
    assert has_ended(end)
    os.close(end)


def test_a_program_that_does_not_end_is_given_up():
    with pytest.raises(subprocess.TimeoutExpired):
        programs.run([sys.executable, "-c", "import time; time.sleep(3600)"], limit=0.1)


def test_a_program_ends_with_the_process_that_started_it():
    code = (
        "from tests import programs; import os, sys\n"
        "with programs.started([sys.executable, '-c', 'import time; time.sleep(3600)']) as p:\n"
        "    print(p.pid, flush=True); sys.stdin.read(1); os._exit(1)"
    )
    pipe = subprocess.PIPE
    with programs.started([sys.executable, "-c", code], stdin=pipe, stdout=pipe) as process:
        end = os.pidfd_open(int(process.stdout.readline()))
        process.communicate(b"x")
        assert has_ended(end)
    os.close(end)


def test_python_is_the_one_that_runs_the_tests():
    done = programs.run(["sh", "-c", "command -v python"], check=True)
    assert done.stdout.strip() == os.path.join(os.path.dirname(sys.executable), "python")
