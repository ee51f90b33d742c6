"""A run that goes on where an earlier one was cut off: what is left to send, what is noted."""

from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from modelflow.cli.feeding import Feed
from modelflow.cli.finished import Finished, Key
from modelflow.errors import ConfigError

if TYPE_CHECKING:
    from modelflow.buffer import Buffer
    from modelflow.cli.writing import ResultWriter
    from modelflow.flow import Flow

__all__ = ["Resuming", "check_resumable"]


def check_resumable(flow: "Flow", feeds: Sequence[Feed], writer: "ResultWriter") -> None:
    """Checks that the results tell which inputs are done.

    Raises:
        click.UsageError: they go to standard output, or come from standard input.
        ConfigError: an input may give none of them or several, or goes elsewhere too.
    """
    if not feeds:
        message = "--resume: the graph has no input; what its sources have read is theirs to know"
        raise ConfigError(message)
    for feed in feeds:
        if feed.is_stdin:
            message = f"--resume: input {feed.port!r} comes from standard input; give files"
            raise click.UsageError(message)
    for port, where in writer.places.items():
        if where == "-":
            message = (
                f"--resume: output {port!r} goes to standard output, which keeps nothing; give "
                f"--output {port}=FILE.jsonl or --output {port}=DIR/"
            )
            raise click.UsageError(message)
    origin = flow.plan.origins[""]
    for name in origin.terminals:
        if name not in origin.outputs:
            message = (
                f"--resume: node {name!r} keeps results of its own, of which nobody knows "
                "afterwards which are whole; have the graph end in outputs"
            )
            raise ConfigError(message)
        if name not in origin.single_outputs:
            message = (
                f"--resume: output {name!r} does not get exactly one result for each input (a "
                "condition, an expand or a stream unit is before it), so none is known to be done"
            )
            raise ConfigError(message)


class Resuming:
    """Notes each input as done when its results have been written. For one thread."""

    def __init__(
        self, path: Path, source: str, feeds: Sequence[Feed], writer: "ResultWriter"
    ) -> None:
        """Reads the list, leaves what is done out of the feeds, and opens the outputs.

        Args:
            path: The list.
            source: The graph, as it was named.
            feeds: What goes into each input of the graph.
            writer: Not opened yet.

        Raises:
            ConfigError: the list is not one of this job, or the outputs do not fit it.
        """
        self._writer = writer
        self._finished = Finished(path, {"graph": source, "outputs": writer.places})
        self.done_before = len(self._finished)
        rows: list[Key] = list(zip(*(map(str, feed.paths) for feed in feeds), strict=True))
        left = [number for number, key in enumerate(rows) if key not in self._finished]
        self.feeds = [feed.only(left) for feed in feeds]
        self._keys = iter([rows[number] for number in left])
        self._sizes: dict[str, deque[int]] = {port: deque() for port in writer.counts}
        try:
            writer.open(True, self.done_before, self._finished.sizes)
        except BaseException:
            self._finished.close()
            raise

    def write(self, output: str, buffer: "Buffer") -> None:
        """Writes a result, and notes the input that is done with it."""
        self._writer.write(output, buffer)
        self._sizes[output].append(self._writer.size(output))
        if all(self._sizes.values()):
            sizes = {port: ends.popleft() for port, ends in self._sizes.items()}
            self._finished.add(next(self._keys), sizes)

    def close(self) -> None:
        """Closes the list."""
        self._finished.close()
