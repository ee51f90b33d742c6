"""A run that continues an interrupted run: the inputs to send, and the notes of finished inputs.

If a process died, its inputs in flight are suspects. The next run sends them first, each alone,
after the results of the one before. The next death then has one suspect. Suspects with the fewest
deaths go first, to finish harmless inputs before the cause is tried again. An input in flight at
its third death is not sent again; its result is an error.
"""

import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from modelflow.buffer import Buffer
from modelflow.errors import ArgumentError, ConfigError, FlowUnitError, WorkerProcessError
from modelflow.job.done_inputs import DoneInputs
from modelflow.job.inputs import Feed
from modelflow.job.suspects import Journal, Key, absolute, suspects

if TYPE_CHECKING:
    from modelflow.flow import Flow
    from modelflow.job.error_report import ErrorReport
    from modelflow.job.writer import ResultWriter


# Deaths with an item in flight after which the item is not sent. In the last two it was alone.
_MOST_DEATHS = 3
# Seconds after which rows are written although they fill no part. They are then not lost.
_PART_SECONDS = 30.0


def check_resumable(flow: "Flow", feeds: Sequence[Feed], writer: "ResultWriter") -> None:
    """Checks that the results show which inputs are done.

    Args:
        flow: The flow, before its start.
        feeds: The buffers for each input of the graph.
        writer: The writer, before `ResultWriter.open`.

    Raises:
        ArgumentError: The results go to standard output, or an input is standard input.
        ConfigError: An input may have no result or several, or ends in a sink.
    """
    if not feeds:
        raise ConfigError(
            "--resume: the graph has no input; only its sources know the rows that they have read"
        )
    for feed in feeds:
        if feed.is_stdin:
            raise ArgumentError(
                f"--resume: input {feed.port!r} comes from standard input; give files"
            )
    for port, where in writer.places.items():
        if where == "-":
            raise ArgumentError(
                f"--resume: output {port!r} goes to standard output, which keeps nothing; give "
                f"--output {port}=FILE.jsonl or --output {port}=DIR/"
            )
    origin = flow.scheduler.plan.origins[""]
    for name in origin.terminals:
        if name not in origin.outputs:
            raise ConfigError(
                f"--resume: node {name!r} writes its own results, and a later run does not know "
                "which of them are complete; have the graph end in outputs"
            )
        if name not in origin.single_outputs:
            raise ConfigError(
                f"--resume: output {name!r} does not get exactly one result for each input. A "
                "condition, an expand or a stream unit is before it, so no input is known to be "
                "done"
            )


class ResumedJob:
    """A resumed job, which notes each input as done after its results were written.

    `write` and `close` must be called by one thread. Another thread may iterate over `feeds`.

    Attributes:
        feeds: The inputs that are not done.
        done_before: Number of inputs that earlier runs have finished.
        is_changed: Whether the first run had another version of the graph.
        alone: Number of inputs that are sent first, each alone.
        given_up: The inputs that are not sent again.
    """

    def __init__(  # noqa: PLR0913 - `Job` alone makes it
        self,
        path: Path,
        graph: str,
        version: str,
        feeds: Sequence[Feed],
        writer: "ResultWriter",
        errors: "ErrorReport",
        *,
        is_inline: bool,
    ) -> None:
        """Reads the list, removes finished inputs from the feeds, and opens the outputs.

        Args:
            path: The path of the list.
            graph: The name of the graph in the list.
            version: A hash of the graph.
            feeds: The buffers for each input of the graph.
            writer: The writer, before `ResultWriter.open`.
            errors: The error report. Its lines about inputs that are not done are removed.
            is_inline: Whether one thread both iterates over the feeds and writes.

        Raises:
            ConfigError: The list belongs to another job, or the outputs do not match the list.
        """
        self._writer, self._errors = writer, errors
        job = {"graph": graph, "outputs": writer.places}
        self._finished = DoneInputs(path, job, version, errors.count_failures())
        self.is_changed = self._finished.is_changed
        try:
            self._begin(journal_of(path), feeds)
            errors.go_on(self._finished.failed)
        except BaseException:
            self._finished.forget()
            self._finished.close()
            raise
        self._is_inline = is_inline

    def _begin(self, journal: Path, feeds: Sequence[Feed]) -> None:
        finished = self._finished
        self.done_before = len(finished)
        rows: list[Key] = list(zip(*(map(str, feed.paths) for feed in feeds), strict=True))
        numbers = {key: number for number, key in enumerate(rows) if key not in finished}
        run, under_way = suspects(journal, finished.run, list(numbers))
        if run > finished.run:
            finished.blame(under_way, run)
        deaths = {key: count for key in numbers if (count := finished.deaths[absolute(key)])}
        self.given_up = {key for key, count in deaths.items() if count >= _MOST_DEATHS}
        alone = deaths.keys() - self.given_up
        self.alone = len(alone)
        first = sorted((key for key in deaths if key in alone), key=deaths.__getitem__)
        left = [*first, *(key for key in numbers if key not in alone)]
        self._left = left
        self.feeds: list[Feed] = [feed.only([numbers[key] for key in left]) for feed in feeds]
        self.feeds[0] = _Watched(self.feeds[0], self)
        self._written = self._noted = 0
        self._turn = threading.Condition()
        self._is_over = False
        self._sizes: dict[str, deque[int]] = {port: deque() for port in self._writer.counts}
        self._last: dict[str, int] = {}
        self._since = time.monotonic()
        paths, is_begun = [key[0] for key in left], finished.is_begun
        self._writer.open(True, self.done_before, finished.sizes, is_begun=is_begun, paths=paths)
        self._journal = Journal(journal, finished.run + 1)

    def entering(self, number: int) -> FlowUnitError | None:
        """Waits until an item may be sent, and notes the item; on the sending thread.

        Returns:
            The error to send in place of the item, or None to send the item.
        """
        key = self._left[number]
        if number <= self.alone and not self._is_inline:
            with self._turn:
                self._turn.wait_for(lambda: self._written == number or self._is_over)
        self._journal.enter(key)
        if key not in self.given_up:
            return None
        names = ", ".join(key)
        cause = WorkerProcessError(
            f"{names}: the process has died {_MOST_DEATHS} times while it was worked on (a fault "
            "in native code, or lack of memory). It is not tried again unless you remove the list "
            "of --resume"
        )
        return FlowUnitError.from_exception(cause, node="input", unit="input", phase="read")

    def give_up(self) -> None:
        """Ends every wait, because the run is ending."""
        with self._turn:
            self._is_over = True
            self._turn.notify_all()

    def write(self, output: str, buffer: "Buffer") -> None:
        """Writes a result, and notes its input if all its results are written."""
        self._writer.write(output, buffer)
        self._sizes[output].append(self._writer.size(output))
        if not all(self._sizes.values()):
            return
        self._last = {port: ends.popleft() for port, ends in self._sizes.items()}
        self._journal.leave()
        with self._turn:  # until the note, because the next suspect may end the process at once
            self._written += 1
            now = time.monotonic()
            is_due = self._writer.is_full or now - self._since >= _PART_SECONDS
            # After the last suspect, results are noted at once. A later death cannot lose them.
            if is_due or not self._writer.has_parts or self._written == self.alone:
                self._since = now
                self._note()
            self._turn.notify_all()

    def _note(self) -> None:
        """Notes inputs as done, after their results are on the disk."""
        count = self._written - self._noted
        if count:
            parts = self._writer.write_parts(count)
            keys = self._left[self._noted : self._written]
            self._finished.add(keys, {**self._last, **parts}, self._errors.count_failures())
            self._noted = self._written

    def close(self) -> None:
        """Notes the last inputs and removes the journal, because the run has ended normally."""
        try:
            self._note()
        finally:
            self._journal.close()
            self._finished.close()


def journal_of(path: Path) -> Path:
    """Returns the path of a job's journal, which is next to the list."""
    return path.with_name(f"{path.name}.journal")


class _Watched(Feed):
    """The files of the first input; the job is notified before each file is read."""

    def __init__(self, feed: Feed, resuming: ResumedJob) -> None:
        super().__init__(feed.port, feed.paths)
        self._resuming = resuming

    def __iter__(self) -> Iterator[Buffer]:
        for number, path in enumerate(self.paths):
            error = self._resuming.entering(number)
            if error is None:
                yield self.read(path)
            else:
                yield Buffer.from_error(error, {"path": str(path)})

    def stop(self) -> None:
        self._resuming.give_up()
