"""Runs a flow under load for some time: sends its inputs repeatedly at full speed."""

import contextlib
import copy
import itertools
import threading
from typing import TYPE_CHECKING, Self

import click

from modelflow.errors import FlowFailed
from modelflow.job.inputs import Feed
from modelflow.job.run import Run
from modelflow.signals import call_undisturbed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from modelflow.buffer import Buffer
    from modelflow.flow import Flow


_MOST_KEPT = 256 << 20  # bytes of files


def check_repeatable(feeds: "Sequence[Feed]") -> None:
    """Checks that the inputs can be sent more than once.

    Raises:
        click.UsageError: An input comes from standard input.
    """
    if any(feed.is_stdin for feed in feeds):
        raise click.UsageError(
            "--input -: the inputs are sent over and over, and standard input can be read once"
        )


class Drive:
    """A load on a running flow during a ``with`` block, sent on a thread of its own.

    The results are discarded. A graph without inputs runs on its sources. At the end of the block
    the items that were sent are processed. If the block raises, they are cancelled.
    """

    def __init__(self, flow: "Flow", feeds: "Sequence[Feed]") -> None:
        """Takes a running flow, and the items for each of its inputs."""
        self._flow = flow
        self._has_inputs = bool(feeds)
        self._over = threading.Event()
        self._ended = threading.Event()
        self._error: BaseException | None = None
        self._run = Run(flow, [_Repeated(feed, self._over) for feed in feeds], _drop)
        self._thread = threading.Thread(target=self._use, name="modelflow-cli/drive")

    def __enter__(self) -> Self:
        try:
            call_undisturbed(self._thread.start)
        except KeyboardInterrupt:
            self.__exit__(KeyboardInterrupt)
            raise
        return self

    def wait(self, seconds: float) -> bool:
        """Waits for so many seconds, or until the graph's sources are done; True if they are."""
        return self._ended.wait(seconds)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._over.set()
        if kind is not None:
            self._run.cancel()
        if not self._has_inputs:
            self._flow.stop(drain=kind is None, wait=False)
        self._thread.join()
        if kind is None and self._error is not None:
            raise self._error

    def _use(self) -> None:
        try:
            self._run.run_threaded()
        except BaseException as error:  # noqa: BLE001 - raised where the block ends
            self._error = error
        finally:
            self._ended.set()


class _Repeated(Feed):
    """A feed that starts from its beginning again until `over` is set.

    Small inputs are read once and kept in memory, because the speed of the disk is not measured.
    """

    def __init__(self, feed: Feed, over: threading.Event) -> None:
        self.port, self.count, self.is_stdin = feed.port, feed.count, False
        self._feed = feed
        self._over = over

    def __iter__(self) -> "Iterator[Buffer]":
        size = self._feed.size
        kept = list(self._feed) if size <= _MOST_KEPT else self._feed
        while not self._over.is_set():
            for buffer in itertools.takewhile(lambda _: not self._over.is_set(), kept):
                yield copy.copy(buffer)


def stop_flow(flow: "Flow") -> None:
    """Stops a flow after the items in flight; a failure is raised where the flow's block ends."""
    with contextlib.suppress(FlowFailed):
        flow.stop()


def _drop(output: str, buffer: "Buffer") -> None:
    """Does nothing with a result."""
