"""The model in mosec: a Rust front end, a Python worker process."""

import os
import sys

import numpy as np
import orjson
from mean import Row, means, row_of
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

    def forward(self, data: list[Row] | Row) -> list[float] | float:
        """Works on a batch, or on a single row without batching."""
        return means(data) if isinstance(data, list) else means([data])[0]


if __name__ == "__main__":
    port, sys.argv[1:] = sys.argv[1], ["--port", sys.argv[1], "--address", "127.0.0.1"]
    server = Server()
    batch = int(os.environ.get("MOSEC_BATCH", "32"))
    settings = {} if batch == 1 else {"max_batch_size": batch, "max_wait_time": 1}
    server.append_worker(Mean, **settings)
    server.run()
