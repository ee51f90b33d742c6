"""The head of an answer."""

import pytest

from modelflow.http.answers import head_of
from modelflow.http.reply import Reply


def lines(reply, **more):
    text = head_of(reply, **{"is_last": False, "is_kept": False, **more}).decode("latin-1")
    assert text.endswith("\r\n\r\n")
    return text.removesuffix("\r\n\r\n").split("\r\n")


def test_a_head_says_status_headers_length_and_date():
    first, *others = lines(Reply(200, b"abc", {"content-type": "text/plain"}))
    assert first == "HTTP/1.1 200 OK"
    assert others[:2] == ["content-type: text/plain", "content-length: 3"]
    assert others[2].startswith("date: ")
    assert others[2].endswith(" GMT")


@pytest.mark.parametrize(("status", "phrase"), [(404, "Not Found"), (599, "Unknown")])
def test_every_status_has_a_phrase(status, phrase):
    assert lines(Reply(status, b"", {}))[0] == f"HTTP/1.1 {status} {phrase}"


@pytest.mark.parametrize("status", [204, 304])
def test_an_answer_that_has_no_body_says_no_length(status):
    assert not [line for line in lines(Reply(status, b"", {})) if "length" in line]


def test_the_end_of_the_connection_is_said():
    assert "connection: close" in lines(Reply(200, b"", {}), is_last=True, is_kept=True)
    assert "connection: keep-alive" in lines(Reply(200, b"", {}), is_kept=True)
    assert not [line for line in lines(Reply(200, b"", {})) if line.startswith("connection")]
