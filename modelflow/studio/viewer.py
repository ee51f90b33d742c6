"""Somebody who watches: what a board tells, sent as server-sent events."""

import threading

from modelflow.http.request import StreamingResponse
from modelflow.ipc.loop_queue import LoopQueue
from modelflow.studio.board import News, SnapshotFeed

_END = b"event: end\ndata: {}\n\n"


class Viewer:
    """Sends what there is to tell to one client. Made and ended on the server's thread."""

    def __init__(self, board: SnapshotFeed, mailbox: LoopQueue) -> None:
        """Takes who tells, and the loop of the server."""
        self._board = board
        self._mailbox = mailbox
        self._outflow: StreamingResponse | None = None
        self._picture = b""
        self._lock = threading.Lock()
        self._latest: News | None = None  # that waits for the server's thread

    def begin(self, outflow: StreamingResponse) -> None:
        """Begins to send."""
        self._outflow = outflow
        outflow.on_gone = self._on_cancel
        self._board.add(self._notify)

    def _notify(self, news: News) -> None:
        """Leaves it for the server's thread; what that has not taken yet is old."""
        with self._lock:
            is_due, self._latest = self._latest is not None, news
        if not is_due:
            self._mailbox.post(self._send)

    def _send(self) -> None:
        """Sends it, unless the client has not taken what was sent before: then the next will do."""
        with self._lock:
            news, self._latest = self._latest, None
        outflow = self._outflow
        if news is None or outflow is None or not (outflow.has_room or news.is_last):
            return
        is_known = news.picture == self._picture
        self._picture = news.picture
        outflow.send((b"" if is_known else news.picture) + news.frame)
        if news.is_last:
            outflow.send(_END)
            outflow.end()
            self._outflow = None

    def _on_cancel(self) -> None:
        self._outflow = None
        self._board.remove(self._notify)
