"""An HTTP/2 client that sends arbitrary frames, for tests."""

import contextlib
import socket
from typing import NamedTuple

from tests.serve.grpc.stub import OIP, infer

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END, WHOLE = 1, 4  # flags: of the stream, of the headers
NO_ERROR, PROTOCOL, FLOW_CONTROL, FRAME_SIZE, REFUSED, CANCEL, COMPRESSION, CALM = (
    0, 1, 3, 6, 7, 8, 9, 11,
)  # fmt: skip
INFER = f"/{OIP}/ModelInfer"
LIVE = f"/{OIP}/ServerLive"
STREAM = f"/{OIP}/ModelStreamInfer"
SECONDS = 60


class Frame(NamedTuple):
    kind: int
    flags: int
    stream: int
    body: bytes

    @property
    def code(self):
        """Returns the error code of a reset or a GOAWAY."""
        return int.from_bytes(self.body[-4:] if self.kind == RESET else self.body[4:8], "big")


def frame(kind, flags=0, stream=0, body=b""):
    head = len(body).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big")
    return head + body


def text(value):
    """Returns a string of HPACK; lengths above 126 take further bytes."""
    length, found = len(value), b""
    if length < 127:
        return bytes([length]) + value
    length -= 127
    while length >= 128:
        found += bytes([length % 128 + 128])
        length //= 128
    return b"\x7f" + found + bytes([length]) + value


def field(name, value):
    return b"\x00" + text(name) + text(value)


def head(path=INFER, *more, method=b"POST", kind=b"application/grpc"):
    """Returns the headers of a call."""
    pairs = (
        (b":method", method), (b":scheme", b"http"), (b":path", path.encode()),
        (b":authority", b"x"), (b"content-type", kind), (b"te", b"trailers"), *more,
    )  # fmt: skip
    return b"".join(field(*pair) for pair in pairs)


def framed(data, flag=0):
    return bytes([flag]) + len(data).to_bytes(4, "big") + data


def asked(message=None):
    """Returns a message with a request to infer, and its prefix."""
    return framed((message or infer()).SerializeToString())


def call(stream, path=INFER, body=None, *more):
    """Returns the frames of a whole call."""
    found = asked() if body is None else body
    return frame(HEADERS, WHOLE, stream, head(path, *more)) + frame(DATA, END, stream, found)


class Wire:
    """A connection."""

    def __init__(self, client):
        self.client = client
        self._data = b""

    def send(self, *frames):
        self.client.sendall(b"".join(frames))

    def next(self):
        """Returns the next frame, or None if the server has closed the connection."""
        while len(self._data) < 9 or len(self._data) < 9 + self._length:
            found = self.client.recv(1 << 16)
            if not found:
                return None
            self._data += found
        end = 9 + self._length
        data, self._data = self._data[:end], self._data[end:]
        return Frame(data[3], data[4], int.from_bytes(data[5:9], "big"), data[9:])

    @property
    def _length(self):
        return int.from_bytes(self._data[:3], "big")

    def until(self, *kinds):
        """Returns the next frame of these kinds."""
        while (found := self.next()) is not None:
            if found.kind in kinds:
                return found
        raise AssertionError("the connection has ended")

    def answer(self, stream):
        """Returns all frames of a stream up to its end; a reset is one frame."""
        found = []
        while True:
            one = self.until(DATA, HEADERS, RESET)
            if one.stream == stream:
                found.append(one)
                if one.kind == RESET or one.flags & END:
                    return found

    def rest(self):
        """Returns all frames up to the end of the connection."""
        return list(iter(self.next, None))


@contextlib.contextmanager
def connected(server, *, is_met=True):
    """Yields a connection, by default with the HTTP/2 preface sent."""
    host, port = server.grpc_address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=SECONDS) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        wire = Wire(client)
        if is_met:
            wire.send(PREFACE, frame(SETTINGS))
        yield wire
