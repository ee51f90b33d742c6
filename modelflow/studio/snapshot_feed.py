"""Reads a flow while pages watch the flow, and sends each snapshot to all pages.

While no page watches, the thread of a `SnapshotFeed` reads the flow once in ten seconds, for the
history with which the next page begins.
"""

import logging
import threading
from collections.abc import Callable
from typing import NamedTuple

from modelflow.errors import ModelflowError, describe_error
from modelflow.http.request import StreamingResponse
from modelflow.ipc.loop_queue import LoopQueue
from modelflow.profile.snapshot import Snapshot
from modelflow.studio.history import SAMPLE_SECONDS, History
from modelflow.studio.moments import Moments, event

_log = logging.getLogger(__name__)


class News(NamedTuple):
    """The current state of a flow, as server-sent events.

    Attributes:
        picture: The places of the nodes, and the changes of the flow. Sent once, and again after
            each change.
        frame: The values of the nodes.
        is_last: Whether no further events follow.
    """

    picture: bytes
    frame: bytes
    is_last: bool = False


Watch = Callable[[News], None]
"""A callback that takes the state of a flow and must not block.

It runs on the feed's thread, or in `SnapshotFeed.add`.
"""


class SnapshotFeed:
    """The snapshots of a flow, for all pages that watch the flow. Safe from any thread."""

    def __init__(
        self, look: Callable[[], Snapshot], every: float, beside: Callable[[], bytes] = bytes
    ) -> None:
        """Starts the thread, which reads the flow seldom until the first watcher comes.

        Args:
            look: Returns the current snapshot of the flow. Raises a `ModelflowError` if the flow
                does not answer. Called on the feed's thread.
            every: Seconds between two snapshots.
            beside: Returns events to send before each frame. Called on the feed's thread.
        """
        self._look = look
        self._every = every
        self._beside = beside
        self._watches: list[Watch] = []
        self._moments = Moments()
        self._history = History()
        self._changed = threading.Condition()
        self._is_over = False
        self._has_new_watch = self._is_watched = False
        self._last: News | None = None  # set once the feed has ended
        self._is_lost = False  # whether the flow did not answer the last time
        self._thread = threading.Thread(target=self._main, name="modelflow-studio/board")
        self._thread.start()

    def add(self, watch: Watch) -> None:
        """Adds a watcher of all further states; after the end, sends only the last state."""
        with self._changed:
            last = self._last
            if last is None:
                self._watches.append(watch)
                self._has_new_watch = True
                self._changed.notify_all()
        if last is not None:
            watch(last)

    def remove(self, watch: Watch) -> None:
        """Removes a watcher; does nothing for an unknown watcher."""
        with self._changed:
            if watch in self._watches:
                self._watches.remove(watch)
                self._changed.notify_all()

    def history(self) -> bytes:
        """Returns the last hour as an event; see `History`."""
        return self._history.event()

    def close(self) -> None:
        """Sends the last state to all watchers, and ends the thread."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
        self._thread.join()

    def _main(self) -> None:
        try:
            while self._wait():
                news = self._news()
                if news.frame:
                    self._tell(news)
            last = News(self._still, b"") if self._is_lost else self._news()
            self._tell(last, is_last=True)
        except Exception as error:  # noqa: BLE001 - reported to the watchers and to the log
            text = f"the figures cannot be shown: {describe_error(error)}"
            _log.exception(text)
            self._tell(News(self._still, event("lost", text)), is_last=True)

    def _wait(self) -> bool:
        """Waits until the next snapshot is due; returns False once the feed is closed."""
        with self._changed:
            due = self._every if self._watches else SAMPLE_SECONDS
            self._changed.wait_for(lambda: self._is_over or self._has_new_watch, due)
            self._has_new_watch = False
            self._is_watched = bool(self._watches)
            return not self._is_over

    def _news(self) -> News:
        moments = self._moments
        try:
            snapshot = self._look()
        except ModelflowError as error:
            self._is_lost = True
            return News(self._still, self._beside() + event("lost", str(error)))
        self._is_lost = False
        self._history.add(snapshot)
        if not (self._is_watched or self._is_over):
            return News(b"", b"")
        moments.add(snapshot)
        return News(self._still, self._beside() + moments.frame)

    @property
    def _still(self) -> bytes:
        return self._moments.picture + self._history.changes

    def _tell(self, news: News, *, is_last: bool = False) -> None:
        news = news._replace(is_last=is_last)
        with self._changed:
            watches = tuple(self._watches)
            self._last = news if is_last else None
        for watch in watches:
            watch(news)


_END = b"event: end\ndata: {}\n\n"


class Viewer:
    """Sends the states of a flow to one client. Created and ended on the server's thread."""

    def __init__(self, board: SnapshotFeed, loop_queue: LoopQueue) -> None:
        """Takes the feed and the event loop of the server."""
        self._board = board
        self._loop_queue = loop_queue
        self._body_stream: StreamingResponse | None = None
        self._picture = b""
        self._has_history = False
        self._lock = threading.Lock()
        self._latest: News | None = None  # waits for the server's thread

    def begin(self, body_stream: StreamingResponse) -> None:
        """Starts sending."""
        self._body_stream = body_stream
        body_stream.on_gone = self._on_cancel
        self._board.add(self._notify)

    def _notify(self, news: News) -> None:
        """Stores a state for the server's thread, and replaces an older unsent state."""
        with self._lock:
            is_due, self._latest = self._latest is not None, news
        if not is_due:
            self._loop_queue.post(self._send)

    def _send(self) -> None:
        """Sends the state, unless the client has not received the previous data yet."""
        with self._lock:
            news, self._latest = self._latest, None
        body_stream = self._body_stream
        if news is None or body_stream is None or not (body_stream.has_room or news.is_last):
            return
        is_known = news.picture == self._picture
        self._picture = news.picture
        history = b"" if self._has_history else self._board.history()
        self._has_history = True
        body_stream.send(history + (b"" if is_known else news.picture) + news.frame)
        if news.is_last:
            body_stream.send(_END)
            body_stream.end()
            self._body_stream = None

    def _on_cancel(self) -> None:
        self._body_stream = None
        self._board.remove(self._notify)
