"""The model in LitServe: FastAPI in front, a worker process."""

import sys
from typing import Any

import litserve
from mean import BATCH, Row, means, row_of


class Mean(litserve.LitAPI):
    """Reads JSON."""

    def setup(self, device: str) -> None:
        """Needs nothing."""

    def decode_request(self, request: dict[str, Any]) -> Row:
        """Gives the row of a request."""
        return row_of(request["instances"][0])

    def batch(self, inputs: list[Row]) -> list[Row]:
        """Returns the batch unchanged."""
        return inputs

    def predict(self, rows: list[Row]) -> list[float]:
        """Returns the means of a batch."""
        return means(rows)

    def unbatch(self, output: list[float]) -> list[float]:
        """Returns the outputs of the single requests."""
        return output

    def encode_response(self, output: float) -> dict[str, list[float]]:
        """Writes the answer."""
        return {"predictions": [output]}


if __name__ == "__main__":
    api = Mean(max_batch_size=BATCH, batch_timeout=0.001)
    server = litserve.LitServer(api, accelerator="cpu", workers_per_device=1)
    server.run(
        host="127.0.0.1", port=int(sys.argv[1]), log_level="warning", generate_client_file=False
    )
