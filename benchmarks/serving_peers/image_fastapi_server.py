"""A FastAPI service without batching, with the defaults of all its packages."""

import sys

import uvicorn
from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from image_calls import classify, read_image, session_of

app = FastAPI()
session = session_of(sys.argv[2], is_spinning=True)


def best_of(jpeg: bytes) -> dict[str, object]:
    """Returns the best class of a JPEG."""
    return {"best": classify(session, read_image(jpeg)[None])}


@app.post("/classify")
async def answer(request: Request) -> dict[str, object]:
    """Answers a JPEG with its best class."""
    return await run_in_threadpool(best_of, await request.body())


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]), log_level="error")
