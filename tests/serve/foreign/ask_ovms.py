"""Calls a server with the client of OpenVINO Model Server: ask_ovms.py HTTP_ADDRESS GRPC_ADDRESS.

This is a separate program because the client's messages have the names of tensorflow-serving-api's.
One process cannot hold both. Prints its results as JSON.
"""

import json
import sys
from collections.abc import Callable

import numpy as np
import ovmsclient


def asked(client: object) -> dict[str, object]:
    """Returns a client's results for all of its calls."""
    rows = np.array([[1.0, 3.0], [4.0, 6.0]], np.float32)
    status = client.get_model_status("m")
    return {
        "predicted": client.predict({"input": rows}, "m").tolist(),
        "of version": client.predict({"input": rows}, "m", 1, timeout=30).tolist(),
        "status": status[1]["state"],
        "metadata": client.get_model_metadata("m"),
        "unknown": refused(lambda: client.predict({"input": rows}, "x")),
        "misfit": refused(lambda: client.predict({"input": rows, "y": rows}, "m")),
    }


def refused(ask: Callable[[], object]) -> list[str]:
    """Returns the type and the text of a call's error."""
    try:
        ask()
    except Exception as error:  # noqa: BLE001 - the client's own errors, by name
        return [type(error).__name__, str(error)]
    return []


if __name__ == "__main__":
    http, grpc = sys.argv[1:]
    makers = {
        "http": (ovmsclient.make_http_client, http),
        "grpc": (ovmsclient.make_grpc_client, grpc),
    }
    json.dump({name: asked(make(where)) for name, (make, where) in makers.items()}, sys.stdout)
