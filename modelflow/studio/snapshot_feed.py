"""Looks at a flow as long as somebody watches, and tells everybody who does.

The thread of a `SnapshotFeed` waits while nobody watches: the flow is not asked then, and pays
nothing.
"""

import logging
import threading
from collections.abc import Callable
from typing import NamedTuple

from modelflow.errors import ModelflowError, describe_error
from modelflow.http.request import StreamingResponse
from modelflow.ipc.loop_queue import LoopQueue
from modelflow.profile.snapshot import Snapshot
from modelflow.studio.moments import Moments, event

_log = logging.getLogger(__name__)


class News(NamedTuple):
    """What there is to tell, as server-sent events.

    Attributes:
        picture: Where the nodes are drawn; sent once, and again when it is another.
        frame: What they do now.
        is_last: Nothing follows.
    """

    picture: bytes
    frame: bytes
    is_last: bool = False


Watch = Callable[[News], None]
"""Takes what there is to tell; on the board's thread, or in `SnapshotFeed.add`. It must not
wait."""


class SnapshotFeed:
    """What is known of a flow, for all who watch it. Safe from any thread."""

    def __init__(
        self, look: Callable[[], Snapshot], every: float, beside: Callable[[], bytes] = bytes
    ) -> None:
        """Begins to wait for the first who watches.

        Args:
            look: Gives the flow as it is now; raises a `ModelflowError` where it does not answer.
                On the board's thread.
            every: Seconds between two looks.
            beside: Gives events that go before each frame; on the board's thread.
        """
        self._look = look
        self._every = every
        self._beside = beside
        self._watches: list[Watch] = []
        self._moments = Moments()
        self._changed = threading.Condition()
        self._is_over = False
        self._last: News | None = None  # nothing follows it
        self._is_lost = False  # the last look found nobody
        self._thread = threading.Thread(target=self._main, name="modelflow-studio/board")
        self._thread.start()

    def add(self, watch: Watch) -> None:
        """Tells somebody everything from now on; what was the last, where that has been told."""
        with self._changed:
            last = self._last
            if last is None:
                self._watches.append(watch)
                self._changed.notify_all()
        if last is not None:
            watch(last)

    def remove(self, watch: Watch) -> None:
        """Tells somebody nothing more; may be called for one who is told nothing."""
        with self._changed:
            if watch in self._watches:
                self._watches.remove(watch)
                self._changed.notify_all()

    def close(self) -> None:
        """Tells everybody how it stands at the end, and ends."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
        self._thread.join()

    def _main(self) -> None:
        try:
            while self._wait():
                self._tell(self._news())
            last = News(self._moments.picture, b"") if self._is_lost else self._news()
            self._tell(last, is_last=True)
        except Exception as error:  # noqa: BLE001 - it is told, to whoever watches and to the log
            text = f"the figures cannot be shown: {describe_error(error)}"
            _log.exception(text)
            self._tell(News(self._moments.picture, event("lost", text)), is_last=True)

    def _wait(self) -> bool:
        """Waits until it is time to look; False: it is over."""
        with self._changed:
            before = len(self._watches)
            if before:
                self._changed.wait_for(
                    lambda: self._is_over or len(self._watches) > before, self._every
                )
            self._changed.wait_for(lambda: self._is_over or bool(self._watches))
            return not self._is_over

    def _news(self) -> News:
        moments = self._moments
        try:
            moments.add(self._look())
        except ModelflowError as error:
            self._is_lost = True
            return News(moments.picture, self._beside() + event("lost", str(error)))
        self._is_lost = False
        return News(moments.picture, self._beside() + moments.frame)

    def _tell(self, news: News, *, is_last: bool = False) -> None:
        news = news._replace(is_last=is_last)
        with self._changed:
            watches = tuple(self._watches)
            self._last = news if is_last else None
        for watch in watches:
            watch(news)


_END = b"event: end\ndata: {}\n\n"


class Viewer:
    """Sends what there is to tell to one client. Made and ended on the server's thread."""

    def __init__(self, board: SnapshotFeed, loop_queue: LoopQueue) -> None:
        """Takes who tells, and the loop of the server."""
        self._board = board
        self._loop_queue = loop_queue
        self._body_stream: StreamingResponse | None = None
        self._picture = b""
        self._lock = threading.Lock()
        self._latest: News | None = None  # that waits for the server's thread

    def begin(self, body_stream: StreamingResponse) -> None:
        """Begins to send."""
        self._body_stream = body_stream
        body_stream.on_gone = self._on_cancel
        self._board.add(self._notify)

    def _notify(self, news: News) -> None:
        """Leaves it for the server's thread; what that has not taken yet is old."""
        with self._lock:
            is_due, self._latest = self._latest is not None, news
        if not is_due:
            self._loop_queue.post(self._send)

    def _send(self) -> None:
        """Sends it, unless the client has not taken what was sent before: then the next will do."""
        with self._lock:
            news, self._latest = self._latest, None
        body_stream = self._body_stream
        if news is None or body_stream is None or not (body_stream.has_room or news.is_last):
            return
        is_known = news.picture == self._picture
        self._picture = news.picture
        body_stream.send((b"" if is_known else news.picture) + news.frame)
        if news.is_last:
            body_stream.send(_END)
            body_stream.end()
            self._body_stream = None

    def _on_cancel(self) -> None:
        self._body_stream = None
        self._board.remove(self._notify)
