"""The document of a flow's figures."""

import json
from dataclasses import replace

import pytest

from modelflow.errors import ConfigError
from modelflow.profile.snapshot import VERSION, Snapshot
from tests.profile.flows import used_flow


def test_what_is_written_is_what_is_read():
    flow = used_flow()
    document = Snapshot.of_flow(flow).document()
    again = Snapshot.read(json.loads(json.dumps(document)))
    assert again.document() == document
    assert again.stats == flow.stats().__class__(
        **{**vars(flow.stats()), "time": again.stats.time, "pool": again.stats.pool}
    )
    assert [row["node"] for row in again.plan] == ["odd"]
    assert document["version"] == VERSION
    assert document["machine"]["processors"] >= 1


def test_nodes_that_run_elsewhere_are_written_and_read_too():
    flow = used_flow()
    snapshot = Snapshot.of_flow(flow)
    node = snapshot.stats["odd"]
    far = replace(node, replicas={"host/1": {"in": replace(node, node="in")}})
    snapshot = replace(snapshot, stats=replace(snapshot.stats, nodes={"odd": far}))
    again = Snapshot.read(json.loads(json.dumps(snapshot.document())))
    assert again.stats["odd"] == far
    assert again.stats["odd"].inside["in"].batch_sizes == node.batch_sizes != {}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda d: [], "this is no snapshot of a flow: it has no 'version'"),
        (lambda d: {**d, "version": 99}, "the snapshot has version 99; expected 1"),
        (lambda d: {**d, "flow": {}}, "the snapshot is damaged: KeyError: 'latency'"),
        (lambda d: {**d, "nodes": [{"node": "a"}]}, "the snapshot is damaged: KeyError"),
        (lambda d: {**d, "nodes": 7}, "the snapshot is damaged: TypeError"),
    ],
)
def test_anything_else_is_refused(change, text):
    with pytest.raises(ConfigError, match=text):
        Snapshot.read(change(Snapshot.of_flow(used_flow(1, 0)).document()))


def test_what_a_later_version_adds_to_a_node_is_passed_over():
    document = Snapshot.of_flow(used_flow(1, 0)).document()
    document["nodes"][0]["more"] = 1
    assert Snapshot.read(document).stats["odd"].buffers == 1
