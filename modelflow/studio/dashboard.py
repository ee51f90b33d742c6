"""A page that shows the state of a flow, live."""

from collections.abc import Callable
from functools import partial
from typing import Self

from modelflow.flow import Flow
from modelflow.profile.snapshot import Snapshot
from modelflow.studio.page_handler import PageHandler
from modelflow.studio.recorder import Record, Recorder
from modelflow.studio.site import Site
from modelflow.studio.snapshot_feed import SnapshotFeed, Viewer


class Dashboard:
    """A server of the page, which runs inside its ``with`` block.

    Attributes:
        url: The URL of the page, with the token that it requires.
    """

    def __init__(
        self,
        look: Callable[[], Snapshot],
        host: str = "127.0.0.1",
        port: int = 0,
        every: float = 0.5,
        record: Record | None = None,
    ) -> None:
        """Reserves the address.

        Args:
            look: Returns the current snapshot of the flow; see `SnapshotFeed`.
            host: The host to listen at.
            port: The port. 0 selects any free port.
            every: Seconds between two snapshots while a page is open.
            record: `Flow.record`, if the page may record the flow. None if it may not.

        Raises:
            OSError: The address is in use, or does not belong to this machine.
        """
        self._look = look
        self._every = every
        self._record = record
        self._site = Site(host, port)
        self.url = self._site.url

    @classmethod
    def of(cls, flow: Flow) -> Self:
        """Returns a dashboard of a flow of this program, on any free port and with recording."""
        return cls(partial(Snapshot.of_flow, flow), record=flow.record)

    def __enter__(self) -> Self:
        """Starts answering.

        Raises:
            OSError: Another process listens at the address.
            MissingDependencyError: The package that reads requests is not installed.
        """
        self._recorder = None if self._record is None else Recorder(self._record)
        site = self._site
        self._desk = PageHandler(
            site.gate, lambda: Viewer(self._board, site.loop_queue), self._recorder
        )
        try:
            self._site.open(self._desk)
        except BaseException:
            self._close_desk()
            raise
        beside = bytes if self._recorder is None else self._recorder.describe_state
        self._board = SnapshotFeed(self._look, self._every, beside)
        return self

    def __exit__(self, *_: object) -> None:
        """Shows the final state, and stops answering."""
        self._board.close()
        self._site.close()
        self._close_desk()

    def _close_desk(self) -> None:
        self._desk.close()
        if self._recorder is not None:
            self._recorder.close()
