"""The least that a server of images can do: uvloop, two decode threads, gathered batches.

It reads only the length of a request, refuses nothing, and has no way to stop.
"""

import asyncio
import queue
import sys
import threading
from collections.abc import Callable

import numpy as np
import orjson
import uvloop
from image_calls import classify, read_image, session_of

BATCH = 32
THREADS = 2
_END = b"\r\n\r\n"

Reply = Callable[[bytes], None]


class Service:
    """Threads that decode, and a thread that runs the model on all images that are ready."""

    def __init__(self, model: str, *, is_spinning: bool, loop: asyncio.AbstractEventLoop) -> None:
        """Starts the threads."""
        self._loop = loop
        self._session = session_of(model, is_spinning=is_spinning)
        self.received: queue.SimpleQueue[tuple[bytes, Reply]] = queue.SimpleQueue()
        self._ready: queue.SimpleQueue[tuple[np.ndarray, Reply]] = queue.SimpleQueue()
        for target in [self._decode] * THREADS + [self._infer]:
            threading.Thread(target=target, daemon=True).start()

    def _decode(self) -> None:
        while True:
            jpeg, reply = self.received.get()
            self._ready.put((read_image(jpeg), reply))

    def _infer(self) -> None:
        while True:
            batch = [self._ready.get()]
            while len(batch) < BATCH and not self._ready.empty():
                batch.append(self._ready.get())
            results = classify(self._session, np.stack([image for image, _ in batch]))
            self._loop.call_soon_threadsafe(self._answer, [one for _, one in batch], results)

    @staticmethod
    def _answer(replies: list[Reply], results: list[dict[str, object]]) -> None:
        for reply, result in zip(replies, results, strict=True):
            body = orjson.dumps({"best": [result]})
            reply(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))


class Connection(asyncio.Protocol):
    """A connection: one request at a time."""

    def __init__(self, service: Service) -> None:
        """Takes the service."""
        self._service = service
        self._held = bytearray()
        self._end = 0  # of the request; 0 before its head has arrived

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Keeps the transport."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Sends a complete body to the decode threads."""
        held = self._held
        held += data
        if not self._end:
            self._head = held.find(_END) + len(_END)
            if self._head < len(_END):
                return
            head = bytes(held[: self._head]).lower()
            self._end = self._head + int(head.partition(b"content-length:")[2].split(None, 1)[0])
        if len(held) >= self._end:
            body = bytes(memoryview(held)[self._head : self._end])
            self._held, self._end = bytearray(), 0
            self._service.received.put((body, self._transport.write))


async def main() -> None:
    """Serves a model at a port until killed: PORT MODEL [spin]."""
    loop = asyncio.get_running_loop()
    service = Service(sys.argv[2], is_spinning="spin" in sys.argv[3:], loop=loop)
    server = await loop.create_server(lambda: Connection(service), "127.0.0.1", int(sys.argv[1]))
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
