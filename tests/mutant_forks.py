"""A plugin of pytest that runs tests once for each mutant, for tests/mutants.py.

The tests are collected once. Then each mutant has its own fork, which runs the tests that call its
function until a test fails. The tests of the module's own file come first, the fast tests before
the slow.
"""

import contextlib
import faulthandler
import gc
import hashlib
import importlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import hypothesis
import pytest

# A survivor costs all its tests, so tests of other modules get at most this many seconds.
_ENOUGH = 1.5
# A mutant hangs if a test takes longer than these seconds plus this multiple of its usual time.
_PATIENCE, _TIMES = 2.0, 6.0
# How a fork ends. Python's watchdog ends any process with 1.
_SURVIVED, _HANGS, _KILLED = 0, 1, 3

hypothesis.settings.register_profile(
    "mutants",
    phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],  # any failure is enough
    database=None,
    deadline=None,
    derandomize=True,
)


@dataclass(frozen=True)
class Call:
    """The calls of a test.

    Attributes:
        file: The digest of the test's file. The knowledge of a test is valid until the file
            changes.
        seconds: The duration of the test.
        functions: The functions with mutants that the test calls, by mutmut's names.
    """

    file: str
    seconds: float
    functions: list[str]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options that tests/mutants.py gives."""
    parser.addoption("--mutants", type=Path, help="a file with the names of mutants, one a line")
    parser.addoption("--mutant-calls", type=Path, help="a file for the functions of each test")
    parser.addoption("--mutant-results", type=Path, help="a file that gets a line for each mutant")
    parser.addoption("--mutant-forks", type=int, default=1, help="how many at a time")


def pytest_configure() -> None:
    """Chooses how hypothesis looks for examples, before a test is made."""
    hypothesis.settings.load_profile("mutants")


def pytest_runtestloop(session: pytest.Session) -> bool:
    """Tries every mutant, in place of running every test once."""
    option = session.config.option
    calls = calls_of(session, option.mutant_calls)
    gc.freeze()
    forks = _Forks(session, calls, option.mutant_forks)
    with option.mutant_results.open("a") as results:
        for name, status in forks.run(option.mutants.read_text().split()):
            print(name, status, file=results, flush=True)
    return True


def calls_of(session: pytest.Session, known: Path) -> dict[str, Call]:
    """Returns the calls of each test; runs the tests that ``known`` lacks, and adds them."""
    told = json.loads(known.read_text()) if known.exists() else {}
    found = {name: Call(**call) for name, call in told.items()}
    digests = {item.path: _digest(item.path) for item in session.items}
    calls = {
        item.nodeid: found[item.nodeid]
        for item in session.items
        if item.nodeid in found and found[item.nodeid].file == digests[item.path]
    }
    new = [item for item in session.items if item.nodeid not in calls]
    if new:
        calls |= {name: Call(**call) for name, call in _in_fork(session, new).items()}
        known.write_text(json.dumps({name: asdict(call) for name, call in calls.items()}))
    return calls


def _in_fork(session: pytest.Session, items: Sequence[pytest.Item]) -> dict[str, dict[str, object]]:
    """Runs tests in a fork to keep this process without threads; returns the tests' calls."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        with _last_act(), os.fdopen(writer, "w") as told:
            json.dump({name: asdict(call) for name, call in _learn(session, items)}, told)
    os.close(writer)
    with os.fdopen(reader) as told:
        text = told.read()
    os.waitpid(pid, 0)
    if not text:
        pytest.exit("a test fails without any mutant; run the tests first", 1)
    found: dict[str, dict[str, object]] = json.loads(text)
    return found


def _learn(session: pytest.Session, items: Sequence[pytest.Item]) -> Iterator[tuple[str, Call]]:
    state = importlib.import_module("mutmut.state").state
    os.environ["MUTANT_UNDER_TEST"] = "stats"
    for place, item in enumerate(items):
        state()._stats.clear()
        began = time.perf_counter()
        _run_item(items, place)
        if session.testsfailed:
            print(f"\n{item.nodeid} fails", file=sys.stderr, flush=True)
            os._exit(_KILLED)
        seconds = time.perf_counter() - began
        yield item.nodeid, Call(_digest(item.path), seconds, sorted(state()._stats))


class _Forks:
    """The running forks, each with its mutant."""

    def __init__(self, session: pytest.Session, calls: Mapping[str, Call], limit: int) -> None:
        self._session = session
        self._calls = calls
        self._limit = limit
        self._running: dict[int, str] = {}

    def run(self, mutants: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Tries each mutant; yields its name and its result."""
        for mutant in mutants:
            items = chosen(mutant, self._session.items, self._calls)
            if not items:
                yield mutant, "no-tests"
                continue
            if len(self._running) == self._limit:
                yield self._ended()
            pid = os.fork()
            if pid == 0:
                with _last_act():
                    self._try(mutant, items)
            self._running[pid] = mutant
        while self._running:
            yield self._ended()

    def _ended(self) -> tuple[str, str]:
        pid, status = os.wait()
        with contextlib.suppress(ProcessLookupError):  # no process of the session is left
            os.killpg(pid, signal.SIGKILL)
        became = {_SURVIVED: "survived", _HANGS: "hangs"}
        return self._running.pop(pid), became.get(os.waitstatus_to_exitcode(status), "killed")

    def _try(self, mutant: str, items: Sequence[pytest.Item]) -> None:
        os.setpgid(0, 0)
        self._session.config.pluginmanager.unregister(name="terminalreporter")
        os.environ["MUTANT_UNDER_TEST"] = mutant
        with Path(os.devnull).open("w") as nowhere:
            for place, item in enumerate(items):
                limit = _PATIENCE + _TIMES * self._calls[item.nodeid].seconds
                faulthandler.dump_traceback_later(limit, exit=True, file=nowhere)
                _run_item(items, place)
                if self._session.testsfailed:
                    os._exit(_KILLED)


def chosen(
    mutant: str, items: Sequence[pytest.Item], calls: Mapping[str, Call]
) -> list[pytest.Item]:
    """Chooses the tests that should notice a mutant, in the order in which to run them.

    All tests of the module's own file are among them, because a program that they start may call
    the function.
    """
    function, own = mutant.partition("__mutmut_")[0], _own_file(mutant)
    ranked = sorted(items, key=lambda item: calls[item.nodeid].seconds)
    calling = [item for item in ranked if function in calls[item.nodeid].functions]
    near = [item for item in calling if item.nodeid.startswith(own)]
    near += [item for item in ranked if item.nodeid.startswith(own) and item not in near]
    left, far = _ENOUGH, []
    for item in calling:
        left -= calls[item.nodeid].seconds
        if left > 0 and item not in near:
            far.append(item)
    return near + far


def _own_file(mutant: str) -> str:
    """Returns the test file of a mutant, for example tests/runtime/orders/test_fair.py."""
    *folders, module = mutant.rpartition(".")[0].split(".")[1:]
    return "/".join(["tests", *folders, f"test_{module}.py"])


def _run_item(items: Sequence[pytest.Item], place: int) -> None:
    item, after = items[place], items[place + 1] if place + 1 < len(items) else None
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


@contextlib.contextmanager
def _last_act() -> Iterator[None]:
    """Ends this process at the end of the block, because a fork must not return."""
    try:
        yield
    except BaseException:  # noqa: BLE001 - a mutant raises whatever it likes
        os._exit(_KILLED)
    os._exit(_SURVIVED)
