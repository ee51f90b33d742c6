"""Expand into crops, work on each, collapse two ports, draw: an application on pictures."""

import cv2
import numpy as np

from tests.compat.modelbox.applications.folders import started, write_graph, write_unit

FIND = """
import numpy as np


class FindFlowUnit(modelbox.FlowUnit):
    # Two boxes in each picture.
    def process(self, data_context):
        for buf in data_context.input("in_image"):
            w, h = buf.get("width"), buf.get("height")
            buf.set("bboxes", [[0, 0, w // 2, h // 2], [w // 2, h // 2, w // 4, h // 4]])
            data_context.output("out_image").push_back(buf)
        return modelbox.Status.StatusCode.STATUS_SUCCESS
"""
EXPAND = """
import numpy as np


class ExpandFlowUnit(modelbox.FlowUnit):
    def process(self, data_context):
        in_image = data_context.input("in_image")[0]
        for box in in_image.get("bboxes"):
            data_context.output("out_image").push_back(in_image)
            region = np.array(box, dtype=np.int32)
            data_context.output("out_region").push_back(
                modelbox.Buffer(self.get_bind_device(), region.{form}))
        return modelbox.Status.StatusCode.STATUS_SUCCESS
"""
CLASSIFY = """
import numpy as np


class ClassifyFlowUnit(modelbox.FlowUnit):
    def process(self, data_context):
        for buf in data_context.input("in_image"):
            mean = float(np.array(buf.as_object(), copy=False).mean())
            out = modelbox.Buffer(self.get_bind_device(), "bright" if mean > 99 else "dark")
            data_context.output("out_label").push_back(out)
        return modelbox.Status.StatusCode.STATUS_SUCCESS
"""
COLLAPSE = """
import json
import numpy as np


class CollapseFlowUnit(modelbox.FlowUnit):
    def process(self, data_context):
        labels = data_context.input("in_label")
        images = data_context.input("in_image")
        told = [
            [str(label), image.get("width"), image.get("height"), image.get("channel")]
            for label, image in zip(labels, images)
        ]
        data_context.output("out_data").push_back(
            modelbox.Buffer(self.get_bind_device(), json.dumps(told)))
        return modelbox.Status.StatusCode.STATUS_SUCCESS
"""
DOT = """
    input1[type=input, flowunit=input, device=cpu, deviceid=0, label="<input> | <output>"]
    decode[type=flowunit, flowunit=image_decoder, device=cpu, pix_fmt=bgr]
    find[type=flowunit, flowunit=find, device=cpu]
    expand[type=flowunit, flowunit=expand, device=cpu]
    crop[type=flowunit, flowunit=crop, device=cpu]
    classify[type=flowunit, flowunit=classify, device=cpu]
    collapse[type=flowunit, flowunit=collapse, device=cpu]
    output1[type=output, flowunit=output, device=cpu, deviceid=0, label="<input> | <output>"]
    input1:input1 -> decode:in_encoded_image
    decode:out_image -> find:in_image
    find:out_image -> expand:in_image
    expand:out_image -> crop:in_image
    expand:out_region -> crop:in_region
    crop:out_image -> classify:in_image
    classify:out_label -> collapse:in_label
    crop:out_image -> collapse:in_image
    collapse:out_data -> output1:output1
"""


def pictures():
    for grey in (40, 120, 200):
        image = np.full((48, 64, 3), grey, np.uint8)
        image[24:] = 255 - grey
        yield image


def labels(image):
    parts = [image[:24, :32], image[24:36, 32:48]]
    return [
        ["bright" if part.mean() > 99 else "dark", part.shape[1], part.shape[0], 3]
        for part in parts
    ]


def run(folder, form):
    units = folder / "flowunit"
    write_unit(units, "find", "FindFlowUnit", FIND, ["in_image"], ["out_image"])
    write_unit(
        units,
        "expand",
        "ExpandFlowUnit",
        EXPAND.replace("{form}", form),
        ["in_image"],
        ["out_image", "out_region"],
        expand=True,
        stream=True,
    )
    write_unit(units, "classify", "ClassifyFlowUnit", CLASSIFY, ["in_image"], ["out_label"])
    write_unit(
        units,
        "collapse",
        "CollapseFlowUnit",
        COLLAPSE,
        ["in_label", "in_image"],
        ["out_data"],
        collapse=True,
        stream=True,
    )
    flow = started(write_graph(folder, DOT))
    stream = flow.create_stream_io()
    for image in pictures():
        buffer = stream.create_buffer(np.array(cv2.imencode(".png", image)[1]))
        assert stream.send("input1", buffer)
    stream.close_input()
    found = []
    while (buffer := stream.recv("output1")) is not None:
        assert not buffer.has_error(), buffer.get_error_msg()
        found.append(buffer.as_object())
    flow.stop()
    return found


def test_crops_are_classified_and_collapsed(tmp_path):
    for place, form in enumerate(("tobytes()", "view(np.uint8)", "flatten()")):
        folder = tmp_path / str(place)
        folder.mkdir()
        found = run(folder, form)
        assert [__import__("json").loads(text) for text in found] == [
            labels(image) for image in pictures()
        ]
