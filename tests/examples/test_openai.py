"""Tests of ``examples/openai`` by OpenAI's own client, against real processes."""

import contextlib
import os
import re
import subprocess
import sys
from pathlib import Path

import openai
import pytest

from tests import programs
from tests.served import serving

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "openai"
BROKEN = '''[graph]
graphconf = """digraph broken {
    prompt [type=input]
    broken [flowunit="broken_unit:Broken"]
    piece  [type=output]
    prompt -> broken -> piece
}"""
[serve]
parameters = ["max_tokens", "temperature", "stop"]
'''
BROKEN_UNIT = """import modelflow


class Broken(modelflow.FlowUnit):
    SPEC = modelflow.FlowUnitSpec(
        "broken",
        {"cpu": lambda: Broken()},
        inputs=(modelflow.Port("prompt"),),
        outputs=(modelflow.Port("piece"),),
        kind=modelflow.Stream(),
    )

    def process(self, ctx):
        if ctx.event or "at once" in ctx.input()[0].data:
            raise modelflow.BadRequest("no more words")
        ctx.emit([{"text": "half"}])
        ctx.send_event()
"""
COUNT = [{"role": "user", "content": "count"}]
RHYME = [{"role": "user", "content": "a rhyme please"}]
WORDS = ["The", " cat", " sat", " on", " the", " mat.", " The", " mat", " was", " flat."]


@contextlib.contextmanager
def application(server):
    """Yields a client of the application in front of a server."""
    command = [sys.executable, FOLDER / "app.py", server]
    environment = {**os.environ, "PORT": "0"}
    with programs.started(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        said = []
        for line in process.stderr:
            said.append(line)
            if found := re.search(r"running on (http://[\d.:]+)", line):
                break
        else:
            pytest.fail(f"it has ended without serving: {said}")
        base, limit = f"{found[1]}/v1", programs.LIMIT
        with openai.OpenAI(base_url=base, api_key="none", max_retries=0, timeout=limit) as client:
            yield client


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("broken")
    (folder / "broken.toml").write_text(BROKEN)
    (folder / "broken_unit.py").write_text(BROKEN_UNIT)
    with serving(folder, str(FOLDER / "chat.toml"), "broken.toml", "--max-requests", "1") as (
        _,
        at,
    ):
        yield at


@pytest.fixture(scope="module")
def client(server):
    with application(server) as found:
        yield found


def complete(client, messages=RHYME, model="chat", **more):
    return client.chat.completions.create(
        **{"model": model, "messages": messages, "temperature": 0, **more}
    )


def test_a_whole_reply_has_text_reason_and_usage(client):
    reply = complete(client)
    (choice,) = reply.choices
    assert (choice.message.role, choice.message.content) == ("assistant", "".join(WORDS))
    assert choice.finish_reason == "stop"
    usage = reply.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (6, 10, 16)
    assert (reply.object, reply.model) == ("chat.completion", "chat")


@pytest.mark.parametrize("has_usage", [False, True])
def test_a_stream_has_a_chunk_for_each_word(client, has_usage):
    options = {"stream_options": {"include_usage": True}} if has_usage else {}
    chunks = list(complete(client, stream=True, **options))
    if has_usage:
        last = chunks.pop()
        assert (last.choices, last.usage.total_tokens) == ([], 16)
    assert all(chunk.usage is None for chunk in chunks)
    assert len({chunk.id for chunk in chunks}) == 1
    deltas = [chunk.choices[0].delta for chunk in chunks]
    assert deltas[0].role == "assistant"
    assert [delta.content for delta in deltas if delta.content] == WORDS
    reasons = [chunk.choices[0].finish_reason for chunk in chunks]
    assert reasons == [None] * (len(chunks) - 1) + ["stop"]


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize(
    ("given", "text", "reason"),
    [
        ({"max_tokens": 4}, "one two three one", "length"),
        ({"max_completion_tokens": 1}, "one", "length"),
        ({"stop": "three one"}, "one two ", "stop"),
        ({"stop": ["never", " two", "three"]}, "one", "stop"),
        ({"stop": "one x", "max_tokens": 4}, "one two three one", "length"),
    ],
)
def test_parameters_reach_the_unit(client, given, text, reason, is_stream):
    reply = complete(client, COUNT, stream=is_stream, **given)
    if is_stream:
        choices = [chunk.choices[0] for chunk in reply]
        found = "".join(choice.delta.content or "" for choice in choices)
    else:
        choices = reply.choices
        found = choices[0].message.content
    assert (found, choices[-1].finish_reason) == (text, reason)


def test_a_reply_continues_the_dialogue(client):
    first = complete(client).choices[0].message
    again = complete(client, [*RHYME, first, {"role": "user", "content": "thank you"}])
    assert again.choices[0].message.content == "You are welcome."


def test_the_models_are_those_of_the_server(client):
    assert {model.id for model in client.models.list()} == {"broken", "chat"}


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize(
    ("given", "kind", "param", "said"),
    [
        ({"model": "no/where"}, openai.NotFoundError, "model", "model 'no/where' is not served"),
        ({"max_tokens": 0}, openai.BadRequestError, "max_tokens", "greater than or equal to 1"),
        ({"temperature": 3}, openai.BadRequestError, "temperature", "less than or equal to 2"),
        ({"messages": []}, openai.BadRequestError, "messages", "at least 1 item"),
        ({"seed": 7}, openai.BadRequestError, "seed", "Extra inputs are not permitted"),
        (
            {"messages": [{"role": "user"}]},
            openai.BadRequestError,
            "messages.0.content",
            "Field required",
        ),
    ],
)
def test_errors_have_the_form_of_openai(client, given, kind, param, said, is_stream):
    with pytest.raises(kind, match=said) as caught:
        complete(client, stream=is_stream, **given)
    assert caught.value.param == param
    assert caught.value.type == "invalid_request_error"


def test_options_of_a_stream_need_a_stream(client):
    with pytest.raises(openai.BadRequestError, match="expected with 'stream'"):
        complete(client, stream_options={"include_usage": True})


def test_a_body_without_json_is_refused(client):
    with pytest.raises(openai.BadRequestError, match="JSON decode error"):
        client.post("/chat/completions", cast_to=object, content=b"{")


def test_an_error_of_the_model_ends_the_reply(client):
    for messages, is_stream in ((RHYME, False), ([{"role": "user", "content": "at once"}], True)):
        with pytest.raises(openai.InternalServerError, match="no more words"):
            complete(client, messages, "broken", stream=is_stream)
    chunks = complete(client, model="broken", stream=True)
    assert next(chunks).choices[0].delta.content == "half"
    with pytest.raises(openai.APIError, match="no more words"):
        next(chunks)


def test_a_full_server_answers_503_until_the_reader_of_a_stream_leaves(client, server):
    endless = complete(client, COUNT, stream=True, max_tokens=10**9)
    assert next(endless).choices[0].delta.content == "one"
    for is_stream in (False, True):
        with pytest.raises(openai.InternalServerError) as caught:
            complete(client, stream=is_stream)
        assert caught.value.status_code == 503
        assert int(caught.value.response.headers["retry-after"]) >= 1
        assert caught.value.type == "server_error"
    endless.close()
    until_served(client)


def test_a_reader_of_a_whole_reply_who_leaves_ends_the_generation(client):
    with pytest.raises(openai.APITimeoutError):
        complete(client, COUNT, max_tokens=10**9, timeout=1)
    until_served(client)


def until_served(client):
    """Asks until the server has an unused place for the request."""
    while True:
        try:
            complete(client)
        except openai.InternalServerError as error:
            assert error.status_code == 503  # noqa: PT017 - the server is still full
        else:
            return


def test_a_server_that_is_gone_is_named():
    with application("http://127.0.0.1:9") as client:
        with pytest.raises(openai.InternalServerError, match=r"127\.0\.0\.1:9 does not answer"):
            complete(client)
        with pytest.raises(openai.InternalServerError, match=r"127\.0\.0\.1:9 does not answer"):
            client.models.list()
