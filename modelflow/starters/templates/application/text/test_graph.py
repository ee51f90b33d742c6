"""Tests the graph with texts of known topics: ``python -m pytest``."""

import subprocess
import sys
from pathlib import Path

import modelflow
import pytest

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="session")
def flow():
    """The running graph; a missing model is made first."""
    if not (HERE / "units" / "topics" / "topics.keras").exists():
        subprocess.run([sys.executable, "make_model.py"], cwd=HERE, check=True)
    with modelflow.Flow(HERE / "graph.toml") as running:
        yield running


@pytest.mark.parametrize(
    ("text", "topic"),
    [("Today it was cold, with rain and wind", "weather"), ("We had bread and cheese", "food")],
)
def test_the_topic_is_told(flow, text, topic):
    best, *_ = flow.infer(text, timeout=60).data
    assert best["class"] == topic
    assert best["score"] > 0.6


def test_what_is_no_text_is_an_error_of_its_own(flow):
    with pytest.raises(modelflow.FlowUnitError, match="utf-8"):
        flow.infer(b"\xff\xfe", timeout=60)
