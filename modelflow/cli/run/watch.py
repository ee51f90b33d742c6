"""``modelflow run --watch``: a graph runs again whenever one of its files changes.

A thread waits for the system to tell of a change, then looks whether it is one of a file that the
graph is made of. The flow is ended as SIGTERM ends it, the user's modules are forgotten, the graph
is read again, and models that have not changed are taken over.
"""

import os
import sys
import threading
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import click

from modelflow.cli.options.graph_choice import GraphChoice
from modelflow.cli.terminal.messages import tell_error, tell_failed
from modelflow.errors import (
    ConfigError,
    FlowFailed,
    MissingDependencyError,
    ModelflowError,
    below_here,
)
from modelflow.signals import ExitCode, Undisturbed, termination

if TYPE_CHECKING:
    from modelflow.engine.loading import KeptModels
    from modelflow.graph.graph import Graph


# Milliseconds: a change is told when nothing has followed it for the second, at the latest after
# the first.
_DEBOUNCE, _STEP = 1600, 50
# Changed files that are named.
_NAMED = 3

State = Mapping[Path, tuple[int, int] | None]


def run_watched(
    choice: GraphChoice, run: "Callable[[Graph, Turn], int]", note: Callable[[str], None]
) -> int:
    """Runs a graph again and again, until a signal ends it.

    Args:
        choice: The graph.
        run: Runs it once, and returns the exit code.
        note: Says something to the user.

    Returns:
        The exit code of SIGTERM; a Ctrl-C is raised.

    Raises:
        MissingDependencyError: ``watchfiles`` is not installed.
        ConfigError: there is no such graph file.
    """
    from modelflow.engine.loading import KeptModels
    from modelflow.registry.forget import forget_modules

    before = frozenset(sys.modules)
    files: Collection[Path] = {choice.path.resolve()}
    if not choice.path.is_file():
        raise ConfigError(f"{choice.path}: there is no such file to watch")
    sys.dont_write_bytecode = True  # a file's cached code is known by its second alone
    with termination(threading.Event(), None), KeptModels() as models:
        while True:
            seen = _state(files)
            turn = Turn(models)
            graph = _read(choice)
            files = _files(graph, files, before)
            with Undisturbed(FileWatch(files, {**_state(files), **seen}, turn.change)):
                code = None if graph is None else _run(run, graph, turn)
                if not turn.changed.is_set() and code != ExitCode.TERMINATED:
                    what = f"waits for a change of its {len(files)} files; Ctrl-C ends it"
                    code = _wait(turn, partial(note, what))
            if not turn.changed.is_set():
                return ExitCode.TERMINATED
            note(f"{_list(turn.what)} changed")
            forget_modules(before)


class Turn:
    """One run of a graph, for whoever has it run: told how it can be ended, and when it runs.

    It ends when a file changes.
    """

    def __init__(self, models: "KeptModels | None" = None) -> None:
        """Begins; `models` are those that the run before has left."""
        self.changed = threading.Event()
        self.what: list[Path] = []
        self._models = models
        self._finish: Callable[[], None] | None = None
        self._lock = threading.Lock()

    @property
    def is_over(self) -> bool:
        """It was ended by a change, not by a signal."""
        return self.changed.is_set()

    def begin(self, finish: Callable[[], None]) -> None:
        """Takes what ends the run, from any thread, as SIGTERM does; before it starts."""
        with self._lock:
            self._finish = finish
            is_late = self.changed.is_set()
        if is_late:
            finish()

    def run(self) -> None:
        """Is called when every unit is open."""
        if self._models is not None:
            self._models.drop()

    def change(self, what: list[Path]) -> None:
        """Takes the files that have changed, and ends the run; on the thread that watches."""
        with self._lock:
            self.what = what
            self.changed.set()
            finish = self._finish
        if finish is not None:
            finish()


def _read(choice: GraphChoice) -> "Graph | None":
    try:
        return choice.read()
    except ModelflowError as error:
        tell_error(str(error))
    return None


def _run(run: "Callable[[Graph, Turn], int]", graph: "Graph", turn: Turn) -> int | None:
    try:
        return run(graph, turn)
    except FlowFailed as failure:
        tell_failed(failure)
    except ModelflowError as error:
        tell_error(str(error))
    except click.ClickException as error:  # what --input says no longer fits
        error.show()
    return None


def _wait(turn: Turn, say: Callable[[], None]) -> int:
    asked = threading.Event()
    over = threading.Event()
    turn.begin(over.set)
    with termination(asked, over.set):
        say()
        over.wait()
    return ExitCode.TERMINATED if asked.is_set() else ExitCode.OK


def _files(
    graph: "Graph | None", known: Collection[Path], before: Collection[str]
) -> Collection[Path]:
    """Returns the files of a graph; of one that cannot be read those that are known of it."""
    from modelflow.graph.files import files_of
    from modelflow.registry.forget import users_modules

    modules = users_modules(before).values()
    found = {*known} if graph is None else files_of(graph)
    return {path.resolve() for path in (*found, *modules)}


def _list(what: list[Path]) -> str:
    names = [below_here(str(path)) for path in what[:_NAMED]]
    more = f" and {len(what) - _NAMED} more" if len(what) > _NAMED else ""
    return ", ".join(names) + more


def _state(files: Collection[Path]) -> State:
    return {path: _stamp(path) for path in files}


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:  # it is not there
        return None
    if path.is_dir():  # by what is in it: its time changes with what editors leave behind, too
        names = sorted(name for name in os.listdir(path) if name[0] != "." and name[-1] != "~")
        return (hash(tuple(name for name in names if name != "__pycache__")), 0)
    return (found.st_mtime_ns, found.st_size)


class FileWatch:
    """Waits on a thread of its own until one of some files is another, and says so once."""

    def __init__(
        self, files: Collection[Path], seen: State, on_change: Callable[[list[Path]], None]
    ) -> None:
        """Takes what to watch.

        Args:
            files: Files and folders; of a folder what is in it.
            seen: Their state when they were read.
            on_change: Called with those that have changed.

        Raises:
            MissingDependencyError: ``watchfiles`` is not installed.
        """
        try:
            from watchfiles._rust_notify import RustNotify
        except ImportError as error:
            raise MissingDependencyError("watchfiles", "watch", "--watch") from error
        self._files, self._seen, self._on_change = files, seen, on_change
        folders = {str(path if path.is_dir() else path.parent) for path in files}
        # From now on nothing is missed. It follows no folders into the depth: those inside are
        # among the files.
        there = [folder for folder in sorted(folders) if os.path.isdir(folder)]
        self._notify: Any = RustNotify(there, False, False, 0, False, True)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="modelflow-cli/watch")

    def __enter__(self) -> Self:
        self._notify.__enter__()
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()
        self._notify.__exit__(*error)

    def _watch(self) -> None:
        while not self._stop.is_set():
            now = _state(self._files)
            changed = [path for path, state in now.items() if state != self._seen.get(path)]
            if changed:
                self._on_change(sorted(changed, key=lambda path: (path.is_dir(), path)))
                return
            self._notify.watch(_DEBOUNCE, _STEP, 0, self._stop)
