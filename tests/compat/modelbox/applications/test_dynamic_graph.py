"""Tests of a program in ModelBox's style without a graph file, with individual calls of units."""

import numpy as np
import pytest

import modelflow.compat.modelbox as modelbox
from tests.compat.modelbox.applications.folders import write_unit
from tests.flowunits.videos import HEIGHT, WIDTH, frames_of, picture, write_video

GRAY = """
import numpy as np


class GrayFlowUnit(modelbox.FlowUnit):
    def process(self, data_context):
        for buf in data_context.input("in_image"):
            img = np.array(buf).reshape((buf.get("height"), buf.get("width"), 3))
            out = self.create_buffer(np.repeat(img.mean(2, keepdims=True), 3, 2).astype(np.uint8))
            out.copy_meta(buf)
            data_context.output("out_image").push_back(out)
        return modelbox.Status.StatusCode.STATUS_SUCCESS
"""


def engine_of(folder):
    engine = modelbox.ModelBoxEngine()
    config = modelbox.Configuration()
    config.set("graph.queue_size", "32")
    config.set("graph.queue_size_external", "1000")
    config.set("graph.batch_size", "4")
    config.set("drivers.skip-default", "false")
    config.set("drivers.dir", [str(folder)])
    status = engine.init(config)
    assert status, str(status)
    return engine


def opened(engine, source):
    """Describes the source of a video's frames."""
    input_stream = engine.create_input({"input"})
    assert input_stream.setmeta("source_url", str(source))
    input_stream.close()
    packets = engine.execute("video_demuxer", {}, input_stream)
    return engine.execute("video_decoder", {"pix_fmt": "bgr"}, packets)


def brightest(frame):
    """Returns the bright pixels of a frame; the program computes them itself, between the units."""
    image = np.array(frame).reshape((frame.get("height"), frame.get("width"), 3))
    return image.min(axis=2) > 200


@pytest.fixture
def folder(tmp_path):
    write_unit(tmp_path / "units", "gray", "GrayFlowUnit", GRAY, ["in_image"], ["out_image"])
    return tmp_path


def test_the_packets_of_a_video_are_counted(folder):
    engine = modelbox.ModelBoxEngine()
    assert engine.init({"queue_size": "32", "queue_size_external": "1000", "batch_size": "16"})
    input_stream = engine.create_input({"input"})
    input_stream.setmeta("source_url", str(write_video(folder / "in.mp4", 30)))
    input_stream.close()
    assert len(list(engine.execute("video_demuxer", {}, input_stream))) == 30
    engine.shutdown()


def test_a_program_works_on_frames_between_two_graphs(folder):
    source, target = write_video(folder / "in.mp4", 50), folder / "out.mp4"
    engine = engine_of(folder / "units")
    encoder_stream = engine.create_input({"in_video_frame"})
    engine.execute(
        "video_encoder",
        {"default_dest_url": str(target), "format": "mp4", "encoder": "mpeg4"},
        encoder_stream,
    )
    left = []
    for frame in opened(engine, source):
        assert not frame.has_error()
        columns = np.flatnonzero(brightest(frame).any(axis=0))
        left.append(int(columns[0]))
        gray = engine.execute("gray", {}, frame)
        small = engine.execute("resize", {"image_width": "80", "image_height": "60"}, gray)
        assert encoder_stream.pushdata(small)
    encoder_stream.close()
    status = engine.close()
    assert status, str(status)
    assert left == pytest.approx([number * 2 % (WIDTH - 24) for number in range(50)], abs=2)
    found = frames_of(target)
    assert [frame.shape for frame in found] == [(60, 80, 3)] * 50
    for number, frame in enumerate(found):
        wanted = picture(number).mean(2)[::2, ::2]
        assert abs(frame.mean(2) - wanted).mean() < 10


def test_a_graph_without_results_runs_when_the_engine_is_closed(folder):
    source, target = write_video(folder / "in.mp4", 30), folder / "out.mp4"
    engine = engine_of(folder / "units")
    gray = engine.execute("gray", {}, opened(engine, source))
    engine.execute("video_encoder", {"default_dest_url": str(target)}, gray)
    assert not target.exists()
    assert engine.close()
    assert [frame.shape for frame in frames_of(target)] == [(HEIGHT, WIDTH, 3)] * 30
