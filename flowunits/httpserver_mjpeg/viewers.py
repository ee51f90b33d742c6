"""The viewers of one node, and the newest image for them."""

import threading
from collections import Counter
from collections.abc import Callable
from functools import partial

from flowunits.httpserver_mjpeg import HttpserverMjpegOptions
from modelflow import Buffer
from modelflow.http import read_endpoint
from modelflow.http.listener import Listener, PendingRequest
from modelflow.http.options import Limits
from modelflow.http.request import StreamingReply, StreamingResponse

__all__ = ["Viewers"]

_HEADERS = {
    "content-type": "multipart/x-mixed-replace; boundary=image",
    "cache-control": "no-store",
}
# The boundary follows its image: a reader that waits for it need not wait for the next image.
_BOUNDARY = b"\r\n--image\r\n"
# Seconds in which viewers can read the end.
_LAST_SECONDS = 0.5


class Viewers:
    """Sends the newest image to each viewer that has room, on the thread of the HTTP server.

    A viewer that reads slowly gets the image that is newest when the viewer has room again.
    """

    def __init__(self, options: HttpserverMjpegOptions, encode: Callable[[Buffer], bytes]) -> None:
        """Begins to listen.

        Args:
            options: The options of the node.
            encode: Makes a JPEG of an image, on any thread.

        Raises:
            OSError, ValueError, MissingDependencyError: As in `Listener`.
        """
        self._encode = encode
        self._lock = threading.Lock()
        self._newest: Buffer | None = None
        self._jpeg: bytes | None = None  # of the newest image, if there was a viewer
        self._is_posted = False
        self._is_over = False
        # The streams, each with the last image that it was sent; for the server's thread.
        self._sent: dict[StreamingResponse, Buffer | None] = {}
        self._counts = Counter(came=0, shown=0, missed=0)
        limits = Limits(requests=options.max_viewers, body=0, methods=("GET",))
        endpoint = read_endpoint(options.endpoint)
        self._listener = Listener(endpoint, limits, self._add, cert=options.cert, key=options.key)
        self._listener.listen()
        self.endpoint = self._listener.endpoint

    def show(self, image: Buffer) -> None:
        """Makes an image the newest. Returns without waiting for viewers.

        Raises:
            ValueError: The image cannot be a JPEG.
        """
        jpeg = self._encode(image) if self._sent else None
        with self._lock:
            self._newest, self._jpeg = image, jpeg
            is_posted, self._is_posted = self._is_posted, True
        if not is_posted:
            self._listener.post(self._send_all)

    def read_counts(self) -> dict[str, int]:
        """Returns the numbers of viewers that came, of images sent, and of images missed."""
        return dict(self._counts)

    def close(self) -> None:
        """Ends all streams, and then the listener."""
        self._listener.post(self._end_all)
        self._listener.close(_LAST_SECONDS)

    # -- on the server's thread -------------------------------------------------------------------

    def _add(self, request: PendingRequest) -> bool:
        if self._is_over:
            return False
        request.answer(StreamingReply(200, self._begin, _HEADERS))
        return True

    def _begin(self, stream: StreamingResponse) -> None:
        if self._is_over:  # the end came between the request and its reply
            stream.end()
            return
        stream.on_room = partial(self._send, stream)
        stream.on_gone = partial(self._remove, stream)
        self._sent[stream] = None
        self._counts["came"] += 1
        stream.send(_BOUNDARY)
        self._send(stream)

    def _remove(self, stream: StreamingResponse) -> None:
        self._sent.pop(stream, None)

    def _send_all(self) -> None:
        with self._lock:
            self._is_posted = False
        for stream in list(self._sent):
            if stream.has_room:
                self._send(stream)
            else:
                self._counts["missed"] += 1

    def _send(self, stream: StreamingResponse) -> None:
        with self._lock:
            image, jpeg = self._newest, self._jpeg
        if image is None or self._sent[stream] is image:
            return
        if jpeg is None:  # the image came before the viewer
            jpeg = self._encode(image)
            with self._lock:
                self._jpeg = jpeg if self._newest is image else self._jpeg
        is_first, self._sent[stream] = self._sent[stream] is None, image
        self._counts["shown"] += 1
        head = b"Content-Type: image/jpeg\r\nContent-Length: %d\r\n\r\n" % len(jpeg)
        # Chromium shows an image when the next one arrives: a new viewer sees the first at once.
        stream.send((head + jpeg + _BOUNDARY) * (1 + is_first))

    def _end_all(self) -> None:
        self._is_over = True
        while self._sent:
            stream, _ = self._sent.popitem()
            stream.end()
