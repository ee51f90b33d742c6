"""Somebody who watches: what a board tells, sent as server-sent events."""

import threading

from modelflow.http.request import StreamingResponse
from modelflow.ipc.loop_queue import LoopQueue
from modelflow.studio.snapshot_feed import News, SnapshotFeed

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
