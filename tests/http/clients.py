"""A server with a handler of the test's own, and raw clients."""

import contextlib
import socket
import threading
from http import HTTPStatus

from modelflow.http.options import ConnectionLimits, Endpoint
from modelflow.http.reply import BodyBudget, BodyLimits, RefusedError, Reply, reply_of_status
from modelflow.http.server import Server, bind_socket

TEXT = {"content-type": "text/plain"}


class Echo:
    """Answers each request with its body; requests with certain paths wait for the test."""

    def __init__(self, most=1 << 20, budget=1 << 22, time_out=60.0):
        self.budget = BodyBudget(budget)
        self.limits = BodyLimits(most, self.budget, time_out)
        self.held = {}
        self.came = threading.Semaphore(0)
        self.gone = []
        self.left = threading.Semaphore(0)

    def begin(self, http_request):
        if http_request.path == "/refused":
            raise RefusedError(reply_of_status(HTTPStatus.NOT_FOUND, "not here"))
        return self.limits

    def handle(self, http_request):
        http_request.on_end = lambda: self.budget.give_back(len(http_request.body))
        http_request.on_gone = lambda: self._gone(http_request)
        if http_request.path == "/broken":
            raise ZeroDivisionError
        if http_request.path.startswith("/held"):
            self.held[http_request.path] = http_request
            self.came.release()
        else:
            http_request.answer(Reply(200, http_request.body, TEXT))

    def _gone(self, http_request):
        self.gone.append(http_request.path)
        self.left.release()

    def let_go(self, path, body=b"late"):
        self.held.pop(path).answer_soon(Reply(200, body, TEXT))


@contextlib.contextmanager
def serving(handler, **limits):
    """Yields a function that connects to a server."""
    with contextlib.closing(bind_socket(Endpoint("127.0.0.1", 0))) as bound:
        server = Server(bound, handler, ConnectionLimits(**limits))
        port = bound.getsockname()[1]

        @contextlib.contextmanager
        def connect():
            with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                yield client

        try:
            yield connect
        finally:
            server.close(0.0)


def request(path="/", body=b"", *headers, method="POST", version="1.1"):
    head = [f"{method} {path} HTTP/{version}", "Host: x", *headers]
    if body or method == "POST":
        head.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*head, "", ""]).encode() + body


def answer(client, method="POST"):
    """Returns one reply: its status, its headers, its body."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        part = client.recv(1)
        if not part:
            raise EOFError(head)
        head += part
    first, *lines = head.decode().split("\r\n")[:-2]
    headers = dict(line.lower().split(": ", 1) for line in lines)
    size = 0 if method == "HEAD" else int(headers.get("content-length", "0"))
    body = b""
    while len(body) < size:
        body += client.recv(size - len(body))
    return int(first.split(" ")[1]), headers, body


def is_ended(client):
    """Returns whether the other side has closed the connection."""
    with contextlib.suppress(ConnectionResetError):
        return client.recv(1) == b""
    return True
