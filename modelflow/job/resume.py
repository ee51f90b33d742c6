"""A run that goes on where an earlier one was cut off: what is left to send, what is noted.

What was under way when a process died is suspected of it. Suspects are sent first and alone, each
when the one before has its results, so that the next death has one culprit; those with the fewest
deaths first, so that the innocent are done before the guilty has its turn. What a process has died
of for the third time is not sent any more: it is an error in its place.
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


# Deaths of a process that had an item under way, the last two with that item alone.
_MOST_DEATHS = 3
# Seconds after which rows that make no full part are written, so that they are not done again.
_PART_SECONDS = 30.0


def check_resumable(flow: "Flow", feeds: Sequence[Feed], writer: "ResultWriter") -> None:
    """Checks that the results tell which inputs are done.

    Args:
        flow: It has been built.
        feeds: What goes into each input of the graph.
        writer: Not opened yet.

    Raises:
        ArgumentError: they go to standard output, or come from standard input.
        ConfigError: an input may give none of them or several, or goes elsewhere too.
    """
    if not feeds:
        raise ConfigError(
            "--resume: the graph has no input; what its sources have read is theirs to know"
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
                f"--resume: node {name!r} keeps results of its own, of which nobody knows "
                "afterwards which are whole; have the graph end in outputs"
            )
        if name not in origin.single_outputs:
            raise ConfigError(
                f"--resume: output {name!r} does not get exactly one result for each input (a "
                "condition, an expand or a stream unit is before it), so none is known to be done"
            )


class ResumedJob:
    """Notes each input as done when its results have been written.

    `write` and `close` are for one thread; another one may go through `feeds`.

    Attributes:
        feeds: What is left to send.
        done_before: How many inputs were done before.
        is_changed: The graph was another one when the job was begun.
        alone: How many inputs are sent alone, first.
        given_up: Those that are not sent any more.
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
        """Reads the list, leaves what is done out of the feeds, and opens the outputs.

        Args:
            path: The list.
            graph: What the list calls the graph.
            version: A hash of the graph.
            feeds: What goes into each input of the graph.
            writer: Not opened yet.
            errors: Where its errors go: what was told of inputs that are not done is cut off.
            is_inline: The thread that goes through the feeds is the one that writes.

        Raises:
            ConfigError: the list is not one of this job, or the outputs do not fit it.
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
        """Waits until an item may be sent, and notes that it is; on the thread that sends.

        Returns:
            What is to be sent in its place; None: it is sent.
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
            f"{names}: the process has died {_MOST_DEATHS} times while it was worked on (of a "
            "fault in native code, or for want of memory); it is not tried again unless the list "
            "of --resume is removed"
        )
        return FlowUnitError.from_exception(cause, node="input", unit="input", phase="read")

    def give_up(self) -> None:
        """Has nobody wait any more: the run is ending."""
        with self._turn:
            self._is_over = True
            self._turn.notify_all()

    def write(self, output: str, buffer: "Buffer") -> None:
        """Writes a result, and notes the input that is done with it."""
        self._writer.write(output, buffer)
        self._sizes[output].append(self._writer.size(output))
        if not all(self._sizes.values()):
            return
        self._last = {port: ends.popleft() for port, ends in self._sizes.items()}
        self._journal.leave()
        with self._turn:
            self._written += 1
            self._turn.notify_all()
        now = time.monotonic()
        is_due = self._writer.is_full or now - self._since >= _PART_SECONDS
        # What was worked on alone is not lost with the crowd.
        if is_due or not self._writer.has_parts or self._written == self.alone:
            self._since = now
            self._note()

    def _note(self) -> None:
        """Notes those as done whose results are there, when they are on the disk."""
        count = self._written - self._noted
        if count:
            parts = self._writer.write_parts(count)
            keys = self._left[self._noted : self._written]
            self._finished.add(keys, {**self._last, **parts}, self._errors.count_failures())
            self._noted = self._written

    def close(self) -> None:
        """Notes what is done, and closes the list: the run has ended in order."""
        try:
            self._note()
        finally:
            self._journal.close()
            self._finished.close()


def journal_of(path: Path) -> Path:
    """Returns where a job notes what is under way: beside its list."""
    return path.with_name(f"{path.name}.journal")


class _Watched(Feed):
    """The files of the first input, each told before it is read."""

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
