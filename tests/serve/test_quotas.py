"""Limits of API keys on requests and rows, in one process."""

import contextlib
import os
import subprocess
import sys
from hashlib import sha256

import grpc
import pytest

from modelflow.serve.access.quotas import Limit, Quota, QuotaError, Resource
from modelflow.serve.access.shared_counts import SLOTS, SharedCounts, make_memory
from tests import programs
from tests.prometheus import samples_of
from tests.serve.clients import ask, of_rest, send
from tests.serve.grpc.stub import X, grpc_served, infer, predict, stub

PREDICT = "/v1/models/m:predict"
INFER = "/v2/models/m/infer"
GENERATE = "/v2/models/m/generate"
KEY = {"x-api-key": "k"}
METADATA = (("x-api-key", "k"),)
OIP = "inference.GRPCInferenceService"


class Clock:
    """A wall clock that the test sets."""

    def __init__(self, now=1000.0):
        self.now = now

    def __call__(self):
        return self.now


def take(quota, resource=Resource.REQUESTS, amount=1):
    """Returns whether a request is within the limits."""
    try:
        quota.take(resource, amount)
    except QuotaError:
        return False
    return True


def requests_of(most, unit="s"):
    return Limit(Resource.REQUESTS, most, unit)


def test_a_window_ends_with_the_second_of_the_clock():
    clock = Clock(1000.75)
    quota = Quota(b"k" * 32, [requests_of(2)], SharedCounts(), clock)
    assert [take(quota) for _ in range(3)] == [True, True, False]
    with pytest.raises(QuotaError, match=r"2 requests a second \(requests=2/s\)") as error:
        quota.take(Resource.REQUESTS)
    assert error.value.retry_after == pytest.approx(0.25)
    clock.now = 1001.0
    assert [take(quota) for _ in range(3)] == [True, True, False]


def test_a_request_beyond_one_limit_counts_for_none():
    clock = Clock(960.0)
    quota = Quota(b"k" * 32, [requests_of(3, "m"), requests_of(2)], SharedCounts(), clock)
    assert [take(quota) for _ in range(4)] == [True, True, False, False]
    clock.now += 1
    assert [take(quota) for _ in range(2)] == [True, False]  # the third of the minute
    clock.now = 1020.0
    assert take(quota)


def test_rows_beyond_any_window_are_told_to_be_fewer():
    quota = Quota(b"k" * 32, [Limit(Resource.ROWS, 10, "m")], SharedCounts(), Clock())
    assert take(quota, Resource.ROWS, 10)
    assert not take(quota, Resource.ROWS, 1)
    with pytest.raises(QuotaError, match="this request has 11; send at most 10 in a request"):
        quota.take(Resource.ROWS, 11)


def test_objects_with_the_same_memory_count_together():
    memory = make_memory()
    counts = SharedCounts(memory), SharedCounts(os.dup(memory))
    quotas = [Quota(b"k" * 32, [requests_of(5)], one, Clock()) for one in counts]
    assert sum(take(quota) for _ in range(5) for quota in quotas) == 5
    for one in counts:
        one.close()


COUNTING = """if True:
    import sys
    from modelflow.serve.access.quotas import Limit, Quota, QuotaError, Resource
    from modelflow.serve.access.shared_counts import SharedCounts
    limits = [Limit(Resource.REQUESTS, 40_000, "m")]
    quota = Quota(b"k" * 32, limits, SharedCounts(int(sys.argv[1])), lambda: 1000.0)
    count = 0
    for _ in range(30_000):
        try:
            quota.take(Resource.REQUESTS)
            count += 1
        except QuotaError:
            pass
    print(count)
"""


def test_processes_that_count_at_the_same_time_lose_no_count():
    memory = make_memory()
    command = [sys.executable, "-c", COUNTING, str(memory)]
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, memory)
        options = {"stdout": subprocess.PIPE, "text": True, "pass_fds": [memory]}
        both = [stack.enter_context(programs.started(command, **options)) for _ in range(2)]
        counts = [int(one.stdout.readline()) for one in both]
    assert sum(counts) == 40_000


def test_every_key_has_its_own_count_and_removed_keys_free_their_slots():
    clock, counts = Clock(), SharedCounts()
    for round_ in range(3):
        keys = [sha256(f"{round_} {number}".encode()).digest() for number in range(SLOTS)]
        quotas = [Quota(key, [requests_of(1)], counts, clock) for key in keys]
        assert all(map(take, quotas))
        assert not any(map(take, quotas[::500]))
        clock.now += 60
    late = Quota(b"late" * 8, [requests_of(1)], counts, clock)
    assert [take(late), take(late)] == [True, False]


@pytest.fixture
def limited(grpc_server, tmp_path):
    """Returns a function that starts a server whose key "k" has limits."""

    def start(limits):
        (tmp_path / "keys").write_text(f"k {limits}\nmetrics other\n")
        return grpc_served(key_file=tmp_path / "keys")

    return start


def refusals(server):
    found = samples_of(send(server, "GET", "/metrics", headers={"x-api-key": "other"})[2].decode())
    return {
        kind: found["modelflow_quota_refused_total", ("reason", kind)]
        for kind in ("requests", "rows")
    }


@of_rest
def test_requests_over_http_are_counted_until_429(limited):
    with limited("requests=3/m") as server:
        body = {"instances": [[1.0, 3.0]]}
        found = [ask(server, PREDICT, body, headers=KEY) for _ in range(5)]
        assert [status for status, *_ in found].count(200) <= 3
        status, document, headers = found[-1]
        assert status == 429
        assert "requests=3/m" in document["error"]
        assert 1 <= int(headers["retry-after"]) <= 60
        assert refusals(server)["requests"] >= 2
        assert ask(server, "/readyz")[0] == 200
        assert send(server, "GET", "/metrics", headers=KEY)[0] == 200  # no inference


FORMS = {
    "predict": (PREDICT, {"instances": [[1.0], [2.0], [3.0]]}, 3),
    "infer": (
        INFER,
        {"inputs": [{"name": "input", "shape": [2, 1], "datatype": "FP32", "data": [1.0, 2.0]}]},
        2,
    ),
    "generate": (GENERATE, {"input": [1.0]}, 1),
}


@of_rest
@pytest.mark.parametrize("form", FORMS)
def test_rows_over_http_are_counted_once(limited, form):
    path, body, rows = FORMS[form]
    with limited(f"rows={4 * rows}/m") as server:
        statuses = [ask(server, path, body, headers=KEY)[0] for _ in range(9)]
        assert statuses[:4] == [200] * 4
        assert 429 in statuses[4:5] or statuses[4:].count(200) <= 4  # a minute may begin
        assert refusals(server) == {"requests": 0, "rows": statuses.count(429)}
        assert refusals(server)["rows"] >= 1


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ((OIP, "ModelInfer"), infer()),
        (("tensorflow.serving.PredictionService", "Predict"), predict()),
    ],
    ids=["infer", "predict"],
)
@pytest.mark.parametrize("limits", ["requests=3/m", f"rows={3 * len(X)}/m"])
def test_calls_are_refused_with_their_status(limited, method, message, limits):
    with limited(limits) as server, stub(server) as client:
        call = client.method(*method)
        done = [call.future(message, metadata=METADATA, timeout=60) for _ in range(7)]
        codes = [one.code().name for one in done]
        for error in (one for one in done if one.exception() is not None):
            assert 1 <= int(dict(error.trailing_metadata())["retry-after"]) <= 60
            assert limits in error.details()
        assert set(codes) == {"OK", "RESOURCE_EXHAUSTED"}
        assert 3 <= codes.count("OK") <= 6  # a minute may begin meanwhile
        assert sum(refusals(server).values()) == codes.count("RESOURCE_EXHAUSTED") >= 1


def test_every_message_of_a_stream_counts(limited):
    with limited("requests=3/m") as server, stub(server) as client:
        call = client.method(OIP, "ModelStreamInfer")
        answers = call(iter([infer()] * 9), metadata=METADATA, timeout=60)
        found = []
        with pytest.raises(grpc.RpcError, match="requests=3/m") as error:
            found.extend(answers)
        assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert 3 <= len(found) <= 6


@of_rest
def test_a_reread_of_the_file_keeps_the_counts(limited, tmp_path):
    with limited("requests=2/m") as server:
        body = {"instances": [[1.0]]}
        for _ in range(3):
            ask(server, PREDICT, body, headers=KEY)
        (tmp_path / "keys").write_text("k requests=2/m\nmetrics other\nk2\n")
        server._access._keys.read()
        ask(server, PREDICT, body, headers={"x-api-key": "k2"})
        assert 429 in [ask(server, PREDICT, body, headers=KEY)[0] for _ in range(3)]
