"""Tests the graph with a video of a known bright square: ``python -m pytest``."""

import subprocess
import sys
from pathlib import Path

import av
import modelflow

HERE = Path(__file__).resolve().parent


def test_every_frame_is_marked(tmp_path):
    if not (HERE / "in.mp4").exists():
        subprocess.run([sys.executable, "make_video.py"], cwd=HERE, check=True)
    marked = tmp_path / "out.mp4"
    with modelflow.Flow(HERE / "graph.toml", args={"marked": str(marked)}) as flow:
        flow.wait()
    with av.open(str(HERE / "in.mp4")) as before, av.open(str(marked)) as after:
        first, second = (
            [frame.to_ndarray(format="bgr24") for frame in video.decode(video=0)]
            for video in (before, after)
        )
    assert len(first) == len(second) == 50
    assert all((one != other).any() for one, other in zip(first, second, strict=True))
