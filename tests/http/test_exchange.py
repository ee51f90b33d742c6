"""A request, and the place for its answer."""

from modelflow.http.reply import Reply
from modelflow.http.request import HttpRequest, RequestHead

OK = Reply(200, b"", {})


class Later:
    """A mailbox whose calls are made when the test says so."""

    def __init__(self):
        self.calls = []

    def post(self, call):
        self.calls.append(call)
        return True


def made(target="/", headers=()):
    sent, mailbox = [], Later()
    return HttpRequest(
        RequestHead("GET", target, headers), "", lambda _, reply: sent.append(reply), mailbox
    ), sent


def test_it_is_answered_once():
    exchange, sent = made()
    told = []
    exchange.on_end, exchange.on_gone = lambda: told.append("end"), lambda: told.append("gone")
    exchange.answer(OK)
    exchange.answer(Reply(500, b"", {}))
    exchange.on_cancel()
    assert (sent, told) == ([OK], ["end"])


def test_one_who_has_gone_is_not_answered():
    exchange, sent = made()
    told = []
    exchange.on_end, exchange.on_gone = lambda: told.append("end"), lambda: told.append("gone")
    exchange.on_cancel()
    exchange.on_cancel()
    exchange.answer(OK)
    assert (sent, told) == ([], ["gone", "end"])


def test_other_threads_answer_over_the_mailbox():
    exchange, sent = made()
    exchange.answer_soon(OK)
    assert sent == []
    exchange._mailbox.calls.pop()()
    assert sent == [OK]


def test_path_and_headers_are_found():
    exchange, _ = made("/a/b?c=d", [(b"x", b"1"), (b"y", b"2"), (b"x", b"3")])
    assert exchange.path == "/a/b"
    assert (exchange.head.named.get(b"x"), exchange.head.named.get(b"z")) == (b"3", None)
