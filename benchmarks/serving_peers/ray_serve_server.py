"""The model behind Ray Serve, on a cluster of its own: ``ray_serve_server.py PORT``.

With ``RAY_SERVE_ENABLE_HA_PROXY=1`` its HAProxy stands in front, else its proxy in Python.
"""

import sys
import threading

import ray
from mean import BATCH, Row, means, row_of
from ray import serve
from starlette.requests import Request


@serve.deployment(max_ongoing_requests=256)
class Mean:
    """Answers as TensorFlow Serving does, the rows of several requests together."""

    @serve.batch(max_batch_size=BATCH, batch_wait_timeout_s=0.0)
    async def mean(self, rows: list[Row]) -> list[float]:
        """Gives the means of rows."""
        return means(rows)

    async def __call__(self, request: Request) -> dict[str, list[float]]:
        """Answers a request of one row."""
        (row,) = (await request.json())["instances"]
        return {"predictions": [await self.mean(row_of(row))]}


if __name__ == "__main__":
    ray.init("local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    serve.start(http_options={"host": "127.0.0.1", "port": int(sys.argv[1])})
    serve.run(Mean.bind(), route_prefix="/")
    threading.Event().wait()
