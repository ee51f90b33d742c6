"""The model in mosec: a Rust front end, a Python worker process."""

import sys

import numpy as np
import orjson
from mean import BATCH, Row, means, row_of
from mosec import Server, Worker


class Mean(Worker):
    """Reads JSON, or raw float32, by the first byte."""

    def deserialize(self, data: bytes) -> Row:
        """Gives the row of a request."""
        if data[:1] == b"{":
            return row_of(orjson.loads(data)["instances"][0])
        return np.frombuffer(data, np.float32)

    def serialize(self, data: float) -> bytes:
        """Writes the answer."""
        return orjson.dumps({"predictions": [data]})

    def forward(self, data: list[Row]) -> list[float]:
        """Works on a batch."""
        return means(data)


if __name__ == "__main__":
    port, sys.argv[1:] = sys.argv[1], ["--port", sys.argv[1], "--address", "127.0.0.1"]
    server = Server()
    server.append_worker(Mean, max_batch_size=BATCH, max_wait_time=1)
    server.run()
