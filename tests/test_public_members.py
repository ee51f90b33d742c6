"""Tests of the public members of flows and sessions: no more than these names."""

import pytest

import modelflow

FLOW = """
ainfer amap create_stream_io graph infer is_running map reconfigure record reload scheduler start
stats stop wait
"""
STREAM_IO = """
aexchange arecv asend cancel close_input context errors exchange meta name outputs recv send wait
"""


@pytest.mark.parametrize(
    ("owner", "names", "most"),
    [(modelflow.Flow, FLOW, 15), (modelflow.StreamIO, STREAM_IO, 14)],
    ids=["Flow", "StreamIO"],
)
def test_the_public_members_are_these(owner, names, most):
    found = [name for name in dir(owner) if not name.startswith("_")]
    assert found == names.split()
    assert len(found) <= most
