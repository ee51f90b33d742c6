"""Tests of pages of other origins."""

import pytest

from modelflow.errors import ConfigError
from modelflow.serve.access.cors import Cors
from tests.serve.clients import ask, send, served

PREDICT = "/v1/models/m:predict"
BODY = {"instances": [[1.0, 3.0]]}
APP = "https://app.example.com"


def preflight(origin, method="POST", headers="content-type, x-api-key"):
    return {
        "Origin": origin,
        "Access-Control-Request-Method": method,
        "Access-Control-Request-Headers": headers,
    }


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    path = tmp_path_factory.mktemp("keys") / "keys"
    path.write_text("key")
    with served(cors_origins=(APP, "http://localhost:3000"), key_file=path) as running:
        yield running


def test_a_browser_that_asks_first_is_told_what_a_page_may_do_without_a_key(server):
    status, found, body = send(server, "OPTIONS", PREDICT, None, preflight(APP))
    assert (status, body) == (204, b"")
    assert found["access-control-allow-origin"] == APP
    assert found["access-control-allow-methods"] == "GET, POST"
    assert found["access-control-allow-headers"] == "content-type, x-api-key"
    assert found["vary"] == "Origin"


def test_a_page_reads_answers_and_errors(server):
    for headers, status in (({"x-api-key": "key"}, 200), ({}, 401)):
        found = ask(server, PREDICT, BODY, headers={"Origin": APP, **headers})
        assert found[0] == status
        assert found[2]["access-control-allow-origin"] == APP
        assert "x-request-id" in found[2]["access-control-expose-headers"]


@pytest.mark.parametrize("origin", ["https://other.example.com", f"{APP}:444", "null", ""])
def test_a_page_of_another_origin_is_told_nothing(server, origin):
    status, found, _ = send(server, "OPTIONS", PREDICT, None, preflight(origin))
    assert status == 403
    assert "access-control-allow-origin" not in found
    headers = {"Origin": origin, "x-api-key": "key"}
    assert "access-control-allow-origin" not in ask(server, PREDICT, BODY, headers=headers)[2]


def test_headers_that_are_none_are_not_allowed(server):
    given = preflight(APP, headers="a: b")
    assert send(server, "OPTIONS", PREDICT, None, given)[0] == 403


def test_every_origin_may_ask_where_that_was_said():
    with served(cors_origins=("*",)) as server:
        found = ask(server, PREDICT, BODY, headers={"Origin": "http://anywhere"})[2]
        assert found["access-control-allow-origin"] == "*"
        assert send(server, "OPTIONS", PREDICT, None, preflight("null"))[0] == 204


def test_nothing_is_said_where_nobody_asked_for_it():
    with served() as server:
        assert send(server, "OPTIONS", PREDICT, None, preflight(APP))[0] == 405
        found = ask(server, PREDICT, BODY, headers={"Origin": APP})[2]
        assert not [name for name in found if name.startswith("access-control")]


@pytest.mark.parametrize(
    "origin",
    ["app.example.com", f"{APP}/", f"{APP}/path", "ftp://x", "https://", "https://x:y", "", "**"],
)
def test_what_is_no_origin_is_named(origin):
    with pytest.raises(ConfigError, match=r"CORS origin: got .*; expected SCHEME://HOST"):
        Cors([origin])


def test_a_page_reads_a_streamed_answer(server):
    path, body = "/v2/models/m/generate_stream", b'{"input": [1.0, 3.0]}'
    for origin, expected in ((APP, APP), ("https://other.example.com", None)):
        headers = {"Origin": origin, "x-api-key": "key"}
        status, found, text = send(server, "POST", path, body, headers)
        assert (status, text) == (200, b'data: {"output": 2.0}\n\n')
        assert found.get("access-control-allow-origin") == expected
