"""Tests of a detector (TorchScript) on a video, up to the drawn boxes, and of its exit code."""

import pytest

from tests.compat.modelbox.applications.folders import started, write_graph, write_unit
from tests.flowunits.videos import frames_of, write_video
from tests.in_process import run_here

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")

PREPROCESS = """
import numpy as np


class PreprocessFlowUnit(modelbox.FlowUnit):
    def open(self, config):
        self.net_h = config.get_int("net_h", 320)
        self.net_w = config.get_int("net_w", 320)
        return modelbox.Status.StatusCode.STATUS_SUCCESS

    def process(self, data_context):
        in_bl = data_context.input("in_image")
        out_bl = data_context.output("out_feature")
        for buf in in_bl:
            img = np.array(buf.as_object(), copy=False)
            img = img.reshape((buf.get("height"), buf.get("width"), buf.get("channel")))
            feature = np.transpose(img.astype(np.float32) / 255.0, (2, 0, 1))
            out = modelbox.Buffer(self.get_bind_device(), np.ascontiguousarray(feature).flatten())
            out.copy_meta(buf)
            out.set("shape", [3, self.net_h, self.net_w])
            out_bl.push_back(out)
        return modelbox.Status.StatusCode.STATUS_SUCCESS
"""
POST = """
import json
import numpy as np


class PostFlowUnit(modelbox.FlowUnit):
    def process(self, data_context):
        images = data_context.input("in_image")
        feats = data_context.input("in_feat")
        has_bbox = data_context.output("has_bbox")
        no_bbox = data_context.output("no_bbox")
        for image, feat in zip(images, feats):
            boxes = np.array(feat.as_object(), copy=False).reshape((-1, 5))
            boxes = [[int(v) for v in box[:4]] for box in boxes if box[4] > 0.5]
            if boxes:
                image.set("bboxes", json.dumps(boxes))
                has_bbox.push_back(image)
            else:
                no_bbox.push_back(image)
        return modelbox.Status.StatusCode.STATUS_SUCCESS
"""
DRAW = """
import json
import cv2
import numpy as np


class DrawFlowUnit(modelbox.FlowUnit):
    def process(self, data_context):
        for buf in data_context.input("in_image"):
            w, h, c = buf.get("width"), buf.get("height"), buf.get("channel")
            img = np.array(buf.as_object(), dtype=np.uint8, copy=False).reshape((h, w, c))
            for x, y, bw, bh in json.loads(buf.get("bboxes")):
                cv2.rectangle(img, (x, y), (x + bw, y + bh), (0, 255, 0), 3)
            out = self.create_buffer(img)
            out.copy_meta(buf)
            data_context.output("out_image").push_back(out)
        return modelbox.Status.StatusCode.STATUS_SUCCESS
"""
MODEL = """
[base]
name = "detect"
device = "cpu"
version = "1.0.0"
description = "a detector"
entry = "./detect.pt"
type = "inference"
virtual_type = "torch"

[input]
[input.input1]
name = "Input"
type = "float"

[output]
[output.output1]
name = "Output"
type = "float"
"""
DOT = """
    video_input[type=flowunit, flowunit=video_input, device=cpu, deviceid=0, source_url="{source}"]
    video_demuxer[type=flowunit, flowunit=video_demuxer, device=cpu, deviceid=0]
    video_decoder[type=flowunit, flowunit=video_decoder, device=cpu, deviceid=0, pix_fmt="rgb"]
    resize[type=flowunit, flowunit=resize, device=cpu, image_width=80, image_height=64]
    preprocess[type=flowunit, flowunit=preprocess, device=cpu, net_h=64, net_w=80]
    detect[type=flowunit, flowunit=detect, device=cpu, batch_size=4]
    post[type=flowunit, flowunit=post, device=cpu]
    draw[type=flowunit, flowunit=draw, device=cpu]
    video_out[type=flowunit, flowunit=video_encoder, device=cpu, default_dest_url="{target}", format=mp4, encoder=mpeg4]

    video_input:out_video_url -> video_demuxer:in_video_url
    video_demuxer:out_video_packet -> video_decoder:in_video_packet
    video_decoder:out_video_frame -> resize:in_image
    resize:out_image -> preprocess:in_image
    preprocess:out_feature -> detect:Input
    detect:Output -> post:in_feat
    video_decoder:out_video_frame -> post:in_image
    post:has_bbox -> draw:in_image
    draw:out_image -> video_out:in_video_frame
    post:no_bbox -> video_out:in_video_frame
"""  # noqa: E501 - as the editor writes it


class Detector(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Finds a fixed box in every bright image."""

    def forward(self, x):
        brightest = x.flatten(1).max(dim=1)[0]
        box = torch.tensor([8.0, 12.0, 40.0, 30.0]).repeat(x.shape[0], 1)
        return torch.cat([box, brightest[:, None]], dim=1)


def application(folder, source):
    units = folder / "flowunit"
    write_unit(units, "preprocess", "PreprocessFlowUnit", PREPROCESS, ["in_image"], ["out_feature"])
    write_unit(
        units,
        "post",
        "PostFlowUnit",
        POST,
        ["in_image", "in_feat"],
        ["has_bbox", "no_bbox"],
        condition=True,
    )
    write_unit(units, "draw", "DrawFlowUnit", DRAW, ["in_image"], ["out_image"])
    model = folder / "model" / "detect"
    model.mkdir(parents=True)
    (model / "detect.toml").write_text(MODEL)
    torch.jit.save(torch.jit.script(Detector()), str(model / "detect.pt"))
    target = folder / "out.mp4"
    return write_graph(folder, DOT.format(source=source, target=target)), target


def test_a_detector_draws_into_a_video(tmp_path):
    source = write_video(tmp_path / "in.mp4", 30)
    path, target = application(tmp_path, source)
    flow = started(path)
    flow.wait(0)
    flow.stop()
    found = frames_of(target)
    assert len(found) == 30
    for frame in found:  # boxes are drawn in RGB, and read back as BGR
        blue, green, red = frame[12, 10:46].mean(axis=0)
        assert green > 150
        assert green > blue + 40
        assert green > red + 40


@pytest.mark.parametrize("sync", [(), ("--sync",)], ids=["threads", "sync"])
def test_a_run_whose_frames_fail_ends_with_1_and_sums_up_what_failed(tmp_path, sync):
    source = write_video(tmp_path / "in.mp4", 30)
    path, _ = application(tmp_path, source)
    draw = tmp_path / "flowunit" / "draw" / "draw.py"
    draw.write_text(draw.read_text().replace("img = np.array", "raise KeyError('lost')\n#"))
    done = run_here(("run", str(path), *sync), env={})
    assert done.returncode == 1, done.stderr
    assert "30 errors" in done.stderr
    *told, summary = [line for line in done.stderr.splitlines() if "KeyError" in line]
    assert len(told) == 20
    assert told[7].startswith("error: ")
    assert "30 x KeyError in 'draw', first: " in summary
