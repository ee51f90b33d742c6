import socket

from modelflow.http.listener import PendingRequest
from modelflow.http.options import ListenOptions
from modelflow.http.reply import BodyBudget
from modelflow.http.request import HttpRequest, RequestHead
from modelflow.http.request_source import RequestSource


class Now:
    """A loop queue whose calls run at once."""

    def post(self, call):
        call()
        return True


def test_a_request_that_the_graph_has_not_seen_may_be_sent_again_elsewhere():
    with socket.create_server(("127.0.0.1", 0)) as server:
        endpoint = f"http://127.0.0.1:{server.getsockname()[1]}"
    bodies, replies = BodyBudget(100), []
    assert bodies.take(3)
    http_request = HttpRequest(
        RequestHead("POST", "/"), "", lambda _, reply: replies.append(reply), Now()
    )
    source = RequestSource(ListenOptions(endpoint=endpoint), is_waiting=True, time_out=30)
    assert source._add(PendingRequest("POST", "/", {}, b"abc", "", http_request, bodies))
    source.close()
    (reply,) = replies
    assert (reply.status, reply.headers["retry-after"]) == (503, "1")
    assert bodies.taken == 0
