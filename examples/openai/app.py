"""A route with OpenAI's interface in front of `modelflow serve`."""

import asyncio
import json
import os
import sys
import time
import uuid
from collections.abc import AsyncIterator, Coroutine
from typing import Annotated, Any, Literal
from urllib.parse import quote

import fastapi
import httpx
import pydantic
import uvicorn
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import Field


class Strict(pydantic.BaseModel, extra="forbid"):
    """A JSON object without unknown keys: an option that has no effect is refused."""


class Message(Strict):
    role: Literal["system", "user", "assistant"]
    content: str


class StreamOptions(Strict):
    include_usage: bool = False


class Completion(Strict):
    """The body of `POST /v1/chat/completions`."""

    model: str
    messages: Annotated[list[Message], Field(min_length=1)]
    stream: bool = False
    stream_options: StreamOptions | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    stop: str | Annotated[list[str], Field(max_length=4)] | None = None

    def document(self) -> dict[str, Any]:
        """Returns the body for modelflow: the input `prompt`, and parameters of the request."""
        lines = [f"{message.role}: {message.content}" for message in self.messages]
        stop = [self.stop] if isinstance(self.stop, str) else self.stop
        parameters = {
            "max_tokens": self.max_completion_tokens or self.max_tokens,
            "temperature": self.temperature,
            "stop": json.dumps(stop) if stop else None,
        }
        given = {name: value for name, value in parameters.items() if value is not None}
        return {"prompt": "\n".join([*lines, "assistant:"]), "parameters": given}


class ApiError(Exception):
    """An error in OpenAI's form."""

    def __init__(self, status: int, message: str, param: str | None = None, wait: str = "") -> None:
        super().__init__(message)
        kind = "server_error" if status >= 500 else "invalid_request_error"
        code = "model_not_found" if status == 404 else None
        self.body = {"error": {"message": message, "type": kind, "param": param, "code": code}}
        self.reply = JSONResponse(self.body, status, {"Retry-After": wait} if wait else None)


async def generate(client: httpx.AsyncClient, asked: Completion) -> AsyncIterator[dict[str, Any]]:
    """Yields the pieces of a reply. The server ends the generation when this iterator is closed."""
    path = f"/v2/models/{quote(asked.model, safe='')}/generate_stream"
    async with client.stream("POST", path, json=asked.document()) as reply:
        if reply.status_code == 404:
            raise ApiError(404, f"model {asked.model!r} is not served; see /v1/models", "model")
        if reply.status_code != 200:
            await reply.aread()
            wait = reply.headers.get("Retry-After", "")
            raise ApiError(reply.status_code, reply.json()["error"], wait=wait)
        async for line in reply.aiter_lines():
            if line:
                event = json.loads(line.removeprefix("data: "))
                if "error" in event:
                    raise ApiError(500, event["error"])
                yield event["piece"]


async def run_until_gone(request: fastapi.Request, work: Coroutine[Any, Any, Any]) -> Any:
    """Returns the result of a coroutine, which is cancelled when the client goes away."""

    async def wait_for_disconnect() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    tasks = [asyncio.create_task(work), asyncio.create_task(wait_for_disconnect())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
    try:
        return await tasks[0]
    except asyncio.CancelledError:
        raise ApiError(499, "the client has gone") from None


async def collect(pieces: AsyncIterator[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns all pieces."""
    return [piece async for piece in pieces]


def usage_of(piece: dict[str, Any]) -> dict[str, int]:
    """Returns the usage, which the last piece holds."""
    made = {name: piece[name] for name in ("prompt_tokens", "completion_tokens")}
    return {**made, "total_tokens": sum(made.values())}


async def events_of(
    pieces: AsyncIterator[dict[str, Any]], piece: dict[str, Any], head: Any, has_usage: bool
) -> AsyncIterator[str]:
    """Yields the chunks of a streamed reply as server-sent events. ``piece`` is the first piece."""
    head = {**head, "object": "chat.completion.chunk", **({"usage": None} if has_usage else {})}

    def event(delta: dict[str, str], reason: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return f"data: {json.dumps({**head, 'choices': [choice]})}\n\n"

    yield event({"role": "assistant", "content": piece["text"]})
    try:
        async for piece in pieces:
            yield event({"content": piece["text"]})
    except ApiError as error:
        yield f"data: {json.dumps(error.body)}\n\n"
        return
    yield event({}, piece["finish_reason"])
    if has_usage:
        yield f"data: {json.dumps({**head, 'choices': [], 'usage': usage_of(piece)})}\n\n"
    yield "data: [DONE]\n\n"


def create_app(server: str) -> fastapi.FastAPI:
    """Returns the application for the modelflow server at an address."""
    app = fastapi.FastAPI()
    limits = httpx.Limits(max_connections=None)
    client = httpx.AsyncClient(base_url=server, timeout=None, limits=limits)

    @app.exception_handler(ApiError)
    async def refuse(_: fastapi.Request, error: ApiError) -> JSONResponse:
        return error.reply

    @app.exception_handler(RequestValidationError)
    async def refuse_body(_: fastapi.Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"][1:])
        return ApiError(400, f"{place}: {first['msg']}", place).reply

    @app.exception_handler(httpx.TransportError)
    async def report(_: fastapi.Request, error: httpx.TransportError) -> JSONResponse:
        return ApiError(503, f"{server} does not answer: {error}").reply

    @app.get("/v1/models")
    async def list_models() -> dict[str, Any]:
        index = (await client.post("/v2/repository/index")).raise_for_status().json()
        names = {model["name"] for model in index if model["state"] == "READY"}
        entry = {"object": "model", "created": 0, "owned_by": "modelflow"}
        return {"object": "list", "data": [{"id": name, **entry} for name in sorted(names)]}

    @app.post("/v1/chat/completions", response_model=None)
    async def complete(asked: Completion, request: fastapi.Request) -> Any:
        if asked.stream_options and not asked.stream:
            raise ApiError(400, "stream_options: expected with 'stream'", "stream_options")
        head = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time())}
        head["model"] = asked.model
        pieces = generate(client, asked)
        if asked.stream:
            first = await run_until_gone(request, anext(pieces))
            has_usage = asked.stream_options is not None and asked.stream_options.include_usage
            events = events_of(pieces, first, head, has_usage)
            return StreamingResponse(events, media_type="text/event-stream")
        found = await run_until_gone(request, collect(pieces))
        message = {"role": "assistant", "content": "".join(piece["text"] for piece in found)}
        choice = {"index": 0, "message": message, "finish_reason": found[-1]["finish_reason"]}
        usage = usage_of(found[-1])
        return {**head, "object": "chat.completion", "choices": [choice], "usage": usage}

    return app


if __name__ == "__main__":
    uvicorn.run(create_app(sys.argv[1]), port=int(os.environ.get("PORT", "8000")))
