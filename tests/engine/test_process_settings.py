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


PRECISION = """
import os
from pathlib import Path
from modelflow.engine import *
from modelflow.engine.tensorflow import settings
from modelflow.errors import EngineError
from tests import programs
settings._processor_flags = lambda: frozenset({flags!r})
engine = find_engine("tensorflow")
def load(**options):
    try:
        engine.load(LoadRequest(Path({path!r}), options=engine.options(**options))).close()
        print(os.environ.get("TF_SET_ONEDNN_FPMATH_MODE"))
    except EngineError as error:
        print(error)
"""
AMX = ("amx_bf16",)
LATE = ", but TensorFlow has already started in this process with "


def precisions(path, flags, calls, **environment):
    """Returns the lines of loads with the given precisions, in a process of their own."""
    code = PRECISION.format(path=str(path), flags=flags)
    code += "".join(f"load({call})\n" for call in calls)
    return python(code, **environment).stdout.splitlines()


@pytest.mark.slow
def test_bf16_is_set_before_tensorflow_starts_and_holds_for_the_process(frozen_graph):
    calls = ("precision='bf16'", "precision='bf16'", "")
    first, second, third = precisions(frozen_graph, AMX, calls)
    assert (first, second) == ("BF16", "BF16")
    assert third.startswith(f"precision: got fp32{LATE}bf16. The precision holds for the whole")


@pytest.mark.slow
def test_bf16_after_the_start_is_an_error(frozen_graph):
    first, second = precisions(frozen_graph, AMX, ("", "precision='bf16'"))
    assert first == "None"
    assert second.startswith(f"precision: got bf16{LATE}fp32.")


@pytest.mark.slow
def test_bf16_on_a_processor_without_amx_is_an_error(frozen_graph):
    first, second = precisions(frozen_graph, ("avx512_bf16",), ("precision='bf16'", ""))
    assert first.startswith("precision: got bf16, but this processor has no AMX (amx_bf16)")
    assert second == "None"


@pytest.mark.slow
def test_fp32_replaces_the_environments_choice(frozen_graph):
    assert precisions(frozen_graph, AMX, ("",), TF_SET_ONEDNN_FPMATH_MODE="BF16") == ["None"]
