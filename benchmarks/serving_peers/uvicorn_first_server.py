"""The model of `first_server.py` in a bare ASGI application: orjson and NumPy, no batching."""

import sys
from collections.abc import Awaitable, Callable

import numpy as np
import orjson
import uvicorn

_HEADERS = [(b"content-type", b"application/json")]


async def app(
    scope: dict[str, object],
    receive: Callable[[], Awaitable[dict[str, object]]],
    send: Callable[[dict[str, object]], Awaitable[None]],
) -> None:
    """Answers the first number of each row."""
    assert scope["type"] == "http"
    body, is_whole = b"", False
    while not is_whole:
        message = await receive()
        body += message["body"]
        is_whole = not message.get("more_body")
    rows = np.asarray(orjson.loads(body)["instances"], np.float32)
    answer = orjson.dumps({"predictions": rows[:, 0].tolist()})
    length = (b"content-length", b"%d" % len(answer))
    await send({"type": "http.response.start", "status": 200, "headers": [*_HEADERS, length]})
    await send({"type": "http.response.body", "body": answer})


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]), log_level="error", access_log=False, lifespan="off")
