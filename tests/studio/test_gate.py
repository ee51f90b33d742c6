"""Tests of the access to the pages."""

import pytest

from modelflow.http.reply import RefusedError
from modelflow.http.request import RequestHead
from modelflow.studio.site import TokenCheck


@pytest.fixture
def gate():
    return TokenCheck("127.0.0.1", 8080)


def asked(gate, *, host="127.0.0.1:8080", origin=None, token=None, method="GET", is_secret=True):
    headers = [(b"host", host.encode())]
    if origin is not None:
        headers.append((b"origin", origin.encode()))
    query = f"?token={gate.token if token is None else token}"
    head = RequestHead(method, f"/events{query}", headers)
    try:
        gate.check(head, is_secret=is_secret)
    except RefusedError as refusal:
        return int(refusal.reply.status)
    return 200


@pytest.mark.parametrize(
    ("how", "status"),
    [
        ({}, 200),
        ({"host": "localhost:8080"}, 200),
        ({"host": "[::1]:8080", "origin": "http://[::1]:8080"}, 200),
        ({"origin": "http://127.0.0.1:8080"}, 200),
        ({"host": "evil.example:8080"}, 421),
        ({"host": "127.0.0.1"}, 421),
        ({"host": ""}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "https://127.0.0.1:8080"}, 403),
        ({"method": "POST"}, 405),
        ({"method": "HEAD"}, 405),
        ({"token": ""}, 403),
        ({"token": "grün"}, 403),
        ({"token": "", "is_secret": False}, 200),
    ],
)
def test_a_page_of_another_site_gets_nothing(gate, how, status):
    assert asked(gate, **how) == status


def test_a_server_for_all_has_any_name_but_still_its_token():
    gate = TokenCheck("0.0.0.0", 8080)
    assert asked(gate, host="box.example:8080") == 200
    assert asked(gate, host="box.example:8080", origin="http://other.example") == 403
    assert asked(gate, host="box.example:8080", token="no") == 403


def test_the_port_that_browsers_do_not_write_need_not_be_there():
    assert asked(TokenCheck("127.0.0.1", 80), host="127.0.0.1") == 200
    assert asked(TokenCheck("127.0.0.1", 80), host="evil.example") == 421


def test_what_changes_something_is_asked_for_by_post_alone(gate):
    def status(method):
        head = RequestHead(method, f"/?token={gate.token}", [(b"host", b"127.0.0.1:8080")])
        try:
            gate.check(head, is_secret=True, method="POST")
        except RefusedError as refusal:
            return int(refusal.reply.status), refusal.reply.headers["allow"]
        return None

    assert status("POST") is None
    assert status("GET") == (405, "POST")


def test_every_gate_has_a_token_of_its_own():
    assert TokenCheck("127.0.0.1", 1).token != TokenCheck("127.0.0.1", 1).token
