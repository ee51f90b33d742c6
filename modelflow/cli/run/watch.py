"""The option ``modelflow run --watch``: runs a graph again after each change of its files.

A thread waits for change events of the system, then checks whether a file of the graph has changed.
The flow ends as after SIGTERM, and the user's modules are forgotten. Then the graph is read again,
and keeps unchanged models loaded.
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


# Milliseconds. A change is reported after `_STEP` without another change, or after `_DEBOUNCE` at
# the latest.
_DEBOUNCE, _STEP = 1600, 50
# Maximum number of changed files in the note.
_NAMED = 3

State = Mapping[Path, tuple[int, int] | None]


def run_watched(
    choice: GraphChoice, run: "Callable[[Graph, Turn], int]", note: Callable[[str], None]
) -> int:
    """Runs a graph after each change of its files, until a signal arrives.

    Args:
        choice: The graph.
        run: Runs the graph once, and returns the exit code.
        note: Prints a note for the user.

    Returns:
        The exit code for SIGTERM; a Ctrl-C raises.

    Raises:
        MissingDependencyError: ``watchfiles`` is not installed.
        ConfigError: The graph file does not exist.
    """
    from modelflow.engine.loading import KeptModels
    from modelflow.registry.forget import forget_modules

    before = frozenset(sys.modules)
    files: Collection[Path] = {choice.path.resolve()}
    if not choice.path.is_file():
        raise ConfigError(f"{choice.path}: there is no such file to watch")
    sys.dont_write_bytecode = True  # cached bytecode is checked against whole seconds only
    with termination(threading.Event(), None), KeptModels() as models:
        while True:
            seen = _state(files)
            turn = Turn(models)
            graph = _read(choice)
            files = _files(graph, files, before)
            with Undisturbed(FileWatch(files, {**_state(files), **seen}, turn.change)):
                code = None if graph is None else _run(run, graph, turn)
                if not turn.changed.is_set() and code != ExitCode.TERMINATED:
                    what = f"waits for a change of its {len(files)} files; Ctrl-C ends the command"
                    code = _wait(turn, partial(note, what))
            if not turn.changed.is_set():
                return ExitCode.TERMINATED
            note(f"{_list(turn.what)} changed")
            forget_modules(before)


class Turn:
    """One run of a watched graph, which ends when a file changes.

    The runner calls `begin` with a function that ends the run, and `run` when the units are open.
    """

    def __init__(self, models: "KeptModels | None" = None) -> None:
        """Takes `models`, the models that the previous run has left loaded."""
        self.changed = threading.Event()
        self.what: list[Path] = []
        self._models = models
        self._finish: Callable[[], None] | None = None
        self._lock = threading.Lock()

    @property
    def is_over(self) -> bool:
        """Whether a change, and not a signal, has ended the run."""
        return self.changed.is_set()

    def begin(self, finish: Callable[[], None]) -> None:
        """Takes a function that ends the run as SIGTERM does, from any thread; before the start."""
        with self._lock:
            self._finish = finish
            is_late = self.changed.is_set()
        if is_late:
            finish()

    def run(self) -> None:
        """Releases the models of the previous run; called when every unit is open."""
        if self._models is not None:
            self._models.drop()

    def change(self, what: list[Path]) -> None:
        """Takes the changed files, and ends the run; called on the watching thread."""
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
    except click.ClickException as error:  # --input does not fit the changed graph
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
    """Returns the files of a graph, or the files known so far if the graph cannot be read."""
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
    except OSError:  # the file does not exist
        return None
    if path.is_dir():  # by its entries, because temporary files of editors change its time, too
        names = sorted(name for name in os.listdir(path) if name[0] != "." and name[-1] != "~")
        return (hash(tuple(name for name in names if name != "__pycache__")), 0)
    return (found.st_mtime_ns, found.st_size)


class FileWatch:
    """Waits on a thread of its own for a change of some files, and reports the change once."""

    def __init__(
        self, files: Collection[Path], seen: State, on_change: Callable[[list[Path]], None]
    ) -> None:
        """Takes the files to watch.

        Args:
            files: Files and folders; a change of a folder is a change of its entries.
            seen: The state of the files when they were read.
            on_change: Called with the changed files.

        Raises:
            MissingDependencyError: ``watchfiles`` is not installed.
        """
        try:
            from watchfiles._rust_notify import RustNotify
        except ImportError as error:
            raise MissingDependencyError("watchfiles", "watch", "--watch") from error
        self._files, self._seen, self._on_change = files, seen, on_change
        folders = {str(path if path.is_dir() else path.parent) for path in files}
        # From here on no change is missed. Subfolders are not followed, because `files` has the
        # ones of interest.
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
