"""A flow that answers requests, and its client."""

import http.client
import socket

import modelflow

GRAPH = """digraph web {{
    receive [flowunit={unit}, endpoint="{endpoint}"{options}]
    work [{work}]
    reply [flowunit=httpserver_sync_reply]
    receive -> work -> reply
}}"""


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class Service:
    """A flow that answers requests with the results of ``work``, a function or attributes."""

    def __init__(
        self,
        work,
        options="",
        *,
        path="/",
        scheme="http",
        work_options="threads=4",
        reply_options="",
    ):
        self.port = free_port()
        self.endpoint = f"{scheme}://127.0.0.1:{self.port}{path}"
        units = [modelflow.flowunit(name="work")(work)] if callable(work) else []
        text = GRAPH.format(
            unit="httpserver_sync_receive",
            endpoint=self.endpoint,
            options=options,
            work=f"{'flowunit=work' if units else work}, batch_size=1, {work_options}",
        )
        if reply_options:
            text = text.replace(
                "=httpserver_sync_reply", f"=httpserver_sync_reply, {reply_options}"
            )
        self.flow = modelflow.Flow(text, units=units)

    def __enter__(self):
        self.flow.start()
        return self

    def __exit__(self, *_):
        self.flow.stop()

    def connect(self, **more):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=30, **more)

    def ask(self, body=b"", path="/", method="POST", headers=None):
        connection = self.connect()
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return response.status, response.read(), dict(response.getheaders())
        finally:
            connection.close()
