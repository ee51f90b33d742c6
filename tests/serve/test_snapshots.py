"""Tests of ``/stats``, which `modelflow top` and `modelflow doctor` read from a server."""

import pytest

import modelflow
from modelflow.cli.insight.fetch import address_of
from modelflow.cli.insight.fetch import ask as snapshot_of
from modelflow.errors import ConfigError
from modelflow.profile.interval import Interval
from modelflow.serve.server import ServeOptions, Server
from tests.serve.clients import TYPED, ask, mean, served
from tests.serve.test_request_context import PREDICT


@pytest.fixture
def two():
    """Yields a server with the models "one" and "other"."""
    flows = {
        name: modelflow.Flow(TYPED.format(node="batch_size=8"), units=[mean])
        for name in ("one", "other")
    }
    with Server(flows, ServeOptions(http_port=0)) as server:
        yield server


def test_a_snapshot_is_of_the_only_model():
    with served() as server:
        address = address_of(server.address)
        before = snapshot_of(address)
        assert ask(server, PREDICT, {"instances": [[1.0]] * 5})[0] == 200
        # A request is counted after its client has the answer.
        while (after := snapshot_of(address)).stats.requests.get("ok") != 1:
            pass
    assert (before.stats["mean"].buffers, after.stats["mean"].buffers) == (0, 5)
    assert after.process["processor_seconds"] >= before.process["processor_seconds"]
    interval = Interval.between(before.stats, after.stats)
    assert interval.seconds > 0


def test_a_snapshot_is_of_the_model_that_is_named(two):
    assert ask(two, "/v1/models/other:predict", {"instances": [[1.0]]})[0] == 200
    for path, rows in (
        ("/stats/one", 0),
        ("/stats/other", 1),
        ("/stats/other/versions/1", 1),
    ):
        assert snapshot_of(f"{two.address}{path}").stats["mean"].buffers == rows


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("", "/stats: 404 Not Found: /stats: expected /stats/NAME; served: one, other"),
        ("/stats/othr", "/stats: no model 'othr' is served; did you mean 'other'?"),
        ("/stats/one/versions/7", "no version '7' of model 'one'; served: 1"),
        ("/stats/one/versions/x", "no version 'x' of model 'one'; served: 1"),
        ("/docs", "has no figures of a flow"),
    ],
)
def test_what_is_not_served_is_said(two, path, text):
    with pytest.raises(ConfigError) as caught:
        snapshot_of(address_of(f"{two.address}{path}"))
    assert text in str(caught.value)


def test_a_key_is_in_the_environment(tmp_path, monkeypatch):
    keys = tmp_path / "keys"
    keys.write_text("metrics OPS-KEY\n")
    with served(key_file=keys) as server:
        address = address_of(server.address)
        with pytest.raises(ConfigError, match="401 Unauthorized: "):
            snapshot_of(address)
        monkeypatch.setenv("MODELFLOW_API_KEY", "OPS-KEY")
        assert snapshot_of(address).stats.name
