"""Tests of a request, and of its reply."""

from modelflow.http.reply import Reply
from modelflow.http.request import HttpRequest, RequestHead

OK = Reply(200, b"", {})


class Later:
    """A loop queue whose calls run when the test says so."""

    def __init__(self):
        self.calls = []

    def post(self, call):
        self.calls.append(call)
        return True


def made(target="/", headers=()):
    sent, loop_queue = [], Later()
    return HttpRequest(
        RequestHead("GET", target, headers), "", lambda _, reply: sent.append(reply), loop_queue
    ), sent


def test_it_is_answered_once():
    http_request, sent = made()
    told = []
    http_request.on_end, http_request.on_gone = (
        lambda: told.append("end"),
        lambda: told.append("gone"),
    )
    http_request.answer(OK)
    http_request.answer(Reply(500, b"", {}))
    http_request.on_cancel()
    assert (sent, told) == ([OK], ["end"])


def test_one_who_has_gone_is_not_answered():
    http_request, sent = made()
    told = []
    http_request.on_end, http_request.on_gone = (
        lambda: told.append("end"),
        lambda: told.append("gone"),
    )
    http_request.on_cancel()
    http_request.on_cancel()
    http_request.answer(OK)
    assert (sent, told) == ([], ["gone", "end"])


def test_other_threads_answer_over_the_mailbox():
    http_request, sent = made()
    http_request.answer_soon(OK)
    assert sent == []
    http_request._loop_queue.calls.pop()()
    assert sent == [OK]


def test_path_and_headers_are_found():
    http_request, _ = made("/a/b?c=d", [(b"x", b"1"), (b"y", b"2"), (b"x", b"3")])
    assert http_request.path == "/a/b"
    assert (http_request.head.named.get(b"x"), http_request.head.named.get(b"z")) == (b"3", None)
