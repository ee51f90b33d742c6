"""Tests of process-wide settings, each in its own process."""

import os
import sys
from pathlib import Path

import pytest

from tests import programs

ROOT = Path(__file__).parents[2]


def python(code, **environment):
    env = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"} | environment
    return programs.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=ROOT,
        env=env,
    )


def test_engine_is_not_imported_before_a_model_is_opened():
    code = (
        "import sys, modelflow.engine.inference, modelflow.engine as e\n"
        "e.find_engine('tensorflow')\n"
        "print([m for m in ('tensorflow', 'cv2', 'keras') if m in sys.modules])"
    )
    assert python(code).stdout == "[]\n"


@pytest.mark.slow
def test_loading_is_silent_and_threads_hold_for_the_process(frozen_graph):
    code = f"""
from pathlib import Path
from modelflow.engine import *
from modelflow.errors import EngineError
from tests import programs
engine = find_engine("tensorflow")
load = lambda **o: engine.load(
    LoadRequest(Path({str(frozen_graph)!r}), options=engine.options(**o)))
load(intra_op_threads=1, inter_op_threads=2).close()
load(intra_op_threads=1).close()
load().close()
import tensorflow as tf
print(tf.config.threading.get_intra_op_parallelism_threads())
try:
    load(intra_op_threads=2)
except EngineError as error:
    print(error)
"""
    result = python(code)
    assert result.stderr == ""
    assert result.stdout.splitlines()[0] == "1"
    assert "intra_op_threads: got 2, but TensorFlow has already started" in result.stdout
    assert "with 1." in result.stdout
