"""A page that shows what a flow does, live."""

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
    """Serves the page while its ``with`` block runs.

    Attributes:
        url: Where it is; with the token without which nothing is shown.
    """

    def __init__(
        self,
        look: Callable[[], Snapshot],
        host: str = "127.0.0.1",
        port: int = 0,
        every: float = 0.5,
        record: Record | None = None,
    ) -> None:
        """Takes the address.

        Args:
            look: Gives the flow as it is now; see `SnapshotFeed`.
            host: Where to listen.
            port: 0: any that is free.
            every: Seconds between two looks at the flow, while somebody watches.
            record: `Flow.record`, where the page may record the flow; None: it may not.

        Raises:
            OSError: the address is in use, or not of this machine.
        """
        self._look = look
        self._every = every
        self._record = record
        self._site = Site(host, port)
        self.url = self._site.url

    @classmethod
    def of(cls, flow: Flow) -> Self:
        """Shows a flow of this program, on any port; the page may record it."""
        return cls(partial(Snapshot.of_flow, flow), record=flow.record)

    def __enter__(self) -> Self:
        """Begins to answer.

        Raises:
            OSError: somebody else listens there.
            MissingDependencyError: what reads requests is not installed.
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
        """Shows how it stands at the end, and answers no more."""
        self._board.close()
        self._site.close()
        self._close_desk()

    def _close_desk(self) -> None:
        self._desk.close()
        if self._recorder is not None:
            self._recorder.close()
