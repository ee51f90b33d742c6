"""The model of `first_server.py` in mosec, with msgspec: PORT BATCH WAIT_MS.

A batch of 1 switches batching off.
"""

import sys

import msgspec
from mosec import Server, Worker


class Rows(msgspec.Struct):
    """The body of a request."""

    instances: list[list[float]]


class First(Worker):
    """Gives the first number of each row."""

    def __init__(self) -> None:
        """Makes the decoder and the encoder."""
        super().__init__()
        self._decoder = msgspec.json.Decoder(Rows)
        self._encoder = msgspec.json.Encoder()

    def deserialize(self, data: bytes) -> list[list[float]]:
        """Gives the rows of a request."""
        return self._decoder.decode(data).instances

    def serialize(self, data: list[float]) -> bytes:
        """Writes the answer."""
        return self._encoder.encode({"predictions": data})

    def forward(self, data: list) -> list:
        """Works on a batch of requests, or on one request without batching."""
        if not isinstance(data[0][0], list):
            return [row[0] for row in data]
        return [[row[0] for row in rows] for rows in data]


if __name__ == "__main__":
    port, batch, wait = sys.argv[1], *map(int, sys.argv[2:])
    sys.argv[1:] = ["--port", port, "--address", "127.0.0.1", "--log-level", "warning"]
    server = Server()
    settings = {} if batch == 1 else {"max_batch_size": batch, "max_wait_time": wait}
    server.append_worker(First, **settings)
    server.run()
