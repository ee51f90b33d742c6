"""Checks of every test: no thread is left alive."""

import contextlib
import logging
import os
import sys
import threading
import time
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from modelflow.registry.forget import forget_named
from modelflow.unit import function
from tests import example_counts

example_counts.register_profiles()
# With the delays of tests/runtime/ordered_locks.py, threads also switch as often as possible.
if "MODELFLOW_DELAYS" in os.environ:
    sys.setswitchinterval(1e-6)

# Tests start a thousand processes, and OpenBLAS's threads are half of the cost of NumPy's import.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


# If this variable is set (.ci/run sets it), a test that is skipped because a package "is not
# installed" fails. Packages that pyproject.toml leaves out for this Python may be missing.
_ALL_INSTALLED = os.environ.get("MODELFLOW_ALL_INSTALLED")


def _left_out():
    """Returns the names of the packages of the group ``test`` that are not for this Python."""
    file = Path(__file__).parents[1] / "pyproject.toml"
    group = tomllib.loads(file.read_text())["dependency-groups"]["test"]
    requirements = [Requirement(line) for line in group]
    return {each.name for each in requirements if each.marker and not each.marker.evaluate()}


_LEFT_OUT = _left_out()
# Every test of these folders needs PyTorch.
collect_ignore = ["gpu", "models"] if "torch" in _LEFT_OUT else []


def pytest_report_header():
    return [
        f"not for this Python: {', '.join(sorted(names))}"
        for names in (_LEFT_OUT, [f"tests/{folder}" for folder in collect_ignore])
        if names
    ]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    report = yield
    reason = str(report.longrepr)
    if report.failed and (name := _lacking(reason)):
        report.outcome = "skipped"
        report.longrepr = (
            str(item.path),
            item.location[1],
            f"Skipped: {name} is not for this Python",
        )
    elif report.skipped and _ALL_INSTALLED and "not installed" in reason and not _lacking(reason):
        report.outcome = "failed"
    return report


def _lacking(reason):
    """Returns the package of `_LEFT_OUT` whose absence is the reason, or None."""
    forms = (
        "{} is not installed",
        "No module named '{}'",
        "the package '{}', which is not installed",
    )
    texts = {form.format(name): name for form in forms for name in _LEFT_OUT}
    return next((name for text, name in texts.items() if text in reason), None)


@pytest.fixture(autouse=True, scope="session")
def no_cache_of_the_user(tmp_path_factory):
    """Makes archives unpack outside the user's own cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MODELFLOW_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def no_thread_left():
    """Fails a test that leaves a thread of modelflow alive."""
    before = set(threading.enumerate())
    yield
    left = [t for t in threading.enumerate() if t not in before and t.name.startswith("modelflow")]
    deadline = time.monotonic() + 60
    for thread in left:  # a stopped thread may still be ending
        thread.join(max(0.0, deadline - time.monotonic()))
    alive = [thread.name for thread in left if thread.is_alive()]
    assert not alive, f"threads left alive: {alive}"


@pytest.fixture(autouse=True)
def no_other_log_level():
    """Restores the log level of modelflow, which belongs to the process."""
    logger = logging.getLogger("modelflow")
    before = logger.level
    yield
    logger.setLevel(before)


@pytest.fixture(autouse=True)
def no_unit_declared():
    """Forgets the functions that a test has decorated: their table belongs to the process."""
    before = dict(function._declared)
    yield
    function._declared.clear()
    function._declared.update(before)


@pytest.fixture(autouse=True, scope="module")
def no_unit_declared_by_fixtures():
    """Forgets the units that the fixtures of a whole module have decorated."""
    before = dict(function._declared)
    yield
    function._declared.clear()
    function._declared.update(before)


@pytest.fixture(autouse=True, scope="module")
def no_module_of_a_file_left(tmp_path_factory):
    """Forgets the modules that a test file's fixtures have imported from their own folders."""
    with _modules_forgotten(tmp_path_factory):
        yield


@pytest.fixture(autouse=True)
def no_module_of_a_test_left(tmp_path_factory):
    """Forgets the modules of a test's own folder: the next test may have a `units.py` too."""
    with _modules_forgotten(tmp_path_factory):
        yield


@contextlib.contextmanager
def _modules_forgotten(tmp_path_factory):
    before, path = set(sys.modules), list(sys.path)
    yield
    sys.path[:] = path  # a command adds the folder of its graph
    base = str(tmp_path_factory.getbasetemp())
    new = {name: sys.modules[name] for name in sys.modules.keys() - before}
    if names := {name for name, module in new.items() if _place(module).startswith(base)}:
        forget_named(names)


def _place(module):
    """Returns the file of a module, or the folder of a namespace package."""
    return getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), "")
