import asyncio
import socket

from modelflow.http.body import BodyBudget
from modelflow.http.options import ListenOptions
from modelflow.http.request import PendingRequest
from modelflow.http.request_source import RequestSource


def test_a_request_that_the_graph_has_not_seen_may_be_sent_again_elsewhere():
    with socket.create_server(("127.0.0.1", 0)) as server:
        endpoint = f"http://127.0.0.1:{server.getsockname()[1]}"
    bodies = BodyBudget(100)
    assert bodies.take(3)

    async def ended():
        loop = asyncio.get_running_loop()
        answer = loop.create_future()
        source = RequestSource(ListenOptions(endpoint=endpoint), is_waiting=True, time_out=30)
        assert source._add(PendingRequest("POST", "/", {}, b"abc", "", loop, answer, bodies))
        await asyncio.to_thread(source.close)
        return await answer

    reply = asyncio.run(ended())
    assert (reply.status, reply.headers["retry-after"]) == (503, "1")
