"""Tests of the sum of several processes' statistics."""

import json

from hypothesis import given
from hypothesis import strategies as st

from modelflow.profile.snapshot import Snapshot
from modelflow.runtime.stats import FlowStats, Histogram, NodeStats
from modelflow.serve.metrics.model_counts import BOUNDS, Exemplar
from modelflow.serve.metrics.snapshot import ModelSnapshot, add_snapshots

COUNTS = st.integers(0, 1000)
SECONDS = st.integers(0, 1000).map(lambda n: n / 8)  # their sums are exact
WORDS = st.dictionaries(st.sampled_from(["OK", "INTERNAL", "CANCELLED"]), st.integers(1, 100))
SIZES = st.dictionaries(st.integers(0, 4), COUNTS)
NODES = st.builds(
    NodeStats,
    st.just("n"),
    st.just("unit"),
    st.just("n"),
    batches=COUNTS,
    busy=SECONDS,
    queue=COUNTS,
    failures=WORDS,
    batch_sizes=SIZES,
    batch_seconds=st.dictionaries(st.integers(0, 4), SECONDS),
    closed=WORDS,
    service=st.builds(Histogram, st.dictionaries(st.integers(0, 9), COUNTS), SECONDS),
    figures=st.dictionaries(st.just("batching"), st.dictionaries(st.just("padding"), COUNTS)),
)
SNAPSHOTS = st.builds(
    Snapshot,
    st.builds(
        FlowStats,
        st.just("flow"),
        SECONDS,
        SECONDS,
        st.fixed_dictionaries({"n": NODES}),
        WORDS,
        st.builds(Histogram, st.dictionaries(st.integers(0, 9), COUNTS), SECONDS),
        COUNTS,
        WORDS,
        COUNTS,
        st.dictionaries(st.just("free"), st.integers(1, 1000)),
    ),
    st.just(({"node": "n"},)),
    st.just({"processors": 2}),
    st.dictionaries(
        st.sampled_from(["processor_seconds", "resident_bytes", "machine_busy_seconds"]), SECONDS
    ),
)
SNAPSHOTS = st.builds(  # by name: a field that is missing here gets values by its type
    ModelSnapshot,
    name=st.sampled_from(["a", "b"]),
    version=st.integers(1, 2),
    outcomes=WORDS,
    refused=WORDS,
    rows=COUNTS,
    failed_rows=COUNTS,
    seconds=SECONDS,
    answer_seconds=SECONDS,
    failed_seconds=SECONDS,
    last=SECONDS,
    latencies=st.tuples(*[COUNTS] * (len(BOUNDS) + 1)),
    exemplars=st.tuples(
        *[st.none() | st.builds(Exemplar, st.text(), SECONDS, SECONDS)] * (len(BOUNDS) + 1)
    ),
    under_way=COUNTS,
    snapshot=SNAPSHOTS,
)


@given(st.lists(SNAPSHOTS))
def test_there_is_one_of_each_version_with_the_sum_of_all(snapshots):
    found = add_snapshots(snapshots)
    assert len(found) == len({(one.name, one.version) for one in snapshots})
    for field in ("rows", "seconds", "under_way"):
        assert sum(getattr(one, field) for one in found) == sum(
            getattr(one, field) for one in snapshots
        )
    for part in ("outcomes", "refused"):
        assert sum(sum(getattr(one, part).values()) for one in found) == sum(
            sum(getattr(one, part).values()) for one in snapshots
        )
    assert sum(sum(one.latencies) for one in found) == sum(sum(one.latencies) for one in snapshots)
    assert sum(one.nodes[0].row_seconds for one in found) == sum(
        one.nodes[0].row_seconds for one in snapshots
    )
    for figure in ("in_flight", "unread_bound"):
        assert sum(getattr(one.snapshot.stats, figure) for one in found) == sum(
            getattr(one.snapshot.stats, figure) for one in snapshots
        )
    for figure in ("processor_seconds", "resident_bytes"):  # the machine's value is not a sum
        assert sum(one.snapshot.process.get(figure, 0) for one in found) == sum(
            one.snapshot.process.get(figure, 0) for one in snapshots
        )
    assert sum(one.snapshot.stats.latency.total for one in found) == sum(
        one.snapshot.stats.latency.total for one in snapshots
    )
    assert all(
        one.last
        == max(p.last for p in snapshots if p.name == one.name and p.version == one.version)
        for one in found
    )


@given(SNAPSHOTS)
def test_it_comes_out_of_json_as_it_went_in(picture):
    assert ModelSnapshot.read(json.loads(json.dumps(picture.document()))) == picture


@given(SNAPSHOTS)
def test_what_is_past_has_nothing_of_the_moment(picture):
    past = picture.past()
    (node,) = past.nodes
    assert (past.under_way, node.queue, node.threads, node.capacity) == (0, 0, 0, 0)
    assert (past.outcomes, past.latencies) == (picture.outcomes, picture.latencies)
    stats = past.snapshot.stats
    assert (stats.in_flight, stats.unread, stats.unread_bound, stats.pool) == (0, {}, 0, {})
    assert stats.requests == picture.snapshot.stats.requests
    assert past.snapshot.process.keys() <= {"processor_seconds", "native_seconds"}
