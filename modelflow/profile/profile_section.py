"""Writes the files of a graph file's ``[profile]``: statistics and a trace of the running flow.

With ``profile=true`` the flow's snapshot ``DIR/NAME.stats.json`` is written once a minute and at
the end. With ``trace=true`` the trace ``DIR/NAME.trace.json.gz`` is recorded. With ``session=true``
it contains every session.
"""

import json
import logging
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modelflow.errors import RecordingError, explain_os_error
from modelflow.files.whole_file import write_whole
from modelflow.profile.recording import Recording
from modelflow.profile.snapshot import Snapshot
from modelflow.runtime.lifecycle import stop_at_exit

if TYPE_CHECKING:
    from modelflow.runtime.scheduler import Scheduler


logger = logging.getLogger("modelflow")

# Seconds between two writes of the statistics, as in ModelBox.
_INTERVAL = 60.0
# By default one of so many sessions is traced.
_SAMPLE = 100


class Journal:
    """Writes the profile files of one flow, from its start to its end."""

    def __init__(self, scheduler: "Scheduler", settings: Mapping[str, Any], folder: Path) -> None:
        """Prepares the files without starting.

        Args:
            scheduler: The scheduler of the flow.
            settings: The section ``[profile]``, with every key.
            folder: The folder to which ``dir`` is relative.
        """
        self._scheduler = scheduler
        self._folder = folder / settings["dir"]
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None
        self._recording: Recording | None = None
        letters = (one if one.isalnum() or one in "-_." else "_" for one in scheduler.plan.name)
        name = "".join(letters)
        self._path = self._folder / f"{name}.stats.json"
        if settings["profile"]:
            self._thread = threading.Thread(
                target=self._run, name=f"modelflow/{scheduler.plan.name}/journal"
            )
        if settings["trace"]:
            sample = 1 if settings["session"] else _SAMPLE
            path = self._folder / f"{name}.trace.json.gz"
            self._recording = Recording(scheduler, path, requests=sample)

    @classmethod
    def begin_if_wanted(
        cls, scheduler: "Scheduler", settings: Mapping[str, Any], folder: Path
    ) -> "Journal | None":
        """Returns a started `Journal`, or None if the section requests no file.

        Raises:
            RecordingError: the folder or a file cannot be written.
        """
        if not (settings["profile"] or settings["trace"]):
            return None
        journal = cls(scheduler, settings, folder)
        with journal._explain_errors():
            journal._folder.mkdir(parents=True, exist_ok=True)
        if journal._recording is not None:
            journal._recording.start()
        if journal._thread is not None:
            stop_at_exit(journal)
            journal._thread.start()
        return journal

    @property
    def is_stopped(self) -> bool:
        """Tells whether the journal has been stopped."""
        return self._is_over.is_set()

    def disown(self) -> None:
        """Drops the thread and the recording in a forked process: both belong to the parent."""
        self._thread = self._recording = None

    def stop(self, drain: bool = True) -> None:  # noqa: ARG002 - see `Stoppable`
        """Writes the last statistics after the end of the flow, and stops.

        Raises:
            RecordingError: a file cannot be written.
        """
        self._is_over.set()
        try:
            if self._recording is not None:
                self._recording.stop()
        finally:
            thread, self._thread = self._thread, None
            if thread is not None:
                thread.join()
                self._write_figures()

    def _run(self) -> None:
        while not self._is_over.wait(_INTERVAL):
            try:
                self._write_figures()
            except RecordingError as error:  # a later write may succeed; `stop` raises its error
                logger.warning("%s", error)

    def _write_figures(self) -> None:
        document = Snapshot.of(self._scheduler.statistics(), self._scheduler.plan).document()
        with self._explain_errors():
            write_whole(self._path, json.dumps(document, indent=1).encode())

    def _explain_errors(self) -> AbstractContextManager[None]:
        text = f"[profile] dir: {self._folder} cannot be written"
        return explain_os_error(text, kind=RecordingError)
