"""HTTP services: one answers text, one an encoded image."""

import base64
import contextlib
import http.client
import json

import cv2
import numpy as np
import pytest

from tests.compat.modelbox.applications.folders import (
    free_port,
    started,
    write_graph,
    write_unit,
)


@contextlib.contextmanager
def served(folder, port, dot):
    flow = started(write_graph(folder, dot))
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        yield client
    finally:
        client.close()
        flow.stop()


def asked(client, body):
    client.request("POST", "/v1/demo", body)
    response = client.getresponse()
    return response.status, response.read(), response.getheader("content-type")


HELLO = """
import json
import datetime


class HelloFlowUnit(modelbox.FlowUnit):
    def __init__(self):
        super().__init__()

    def open(self, config):
        return modelbox.Status.StatusCode.STATUS_SUCCESS

    def process(self, data_context):
        in_data = data_context.input("in_data")
        out_data = data_context.output("out_data")
        for buffer in in_data:
            request_body = json.loads(buffer.as_object().strip(chr(0)))
            msg = request_body.get("msg", "nobody")
            modelbox.info("got " + msg, buffer.get("method"))
            add_string = "Hello " + msg + "!" + chr(0)
            {give}
        return modelbox.Status.StatusCode.STATUS_SUCCESS

    def close(self):
        return modelbox.Status()
"""


@pytest.mark.parametrize(
    "give",
    [
        "out_data.push_back(modelbox.Buffer(self.get_bind_device(), add_string.encode('utf-8')))",
        "out_data.push_back(modelbox.Buffer(self.get_bind_device(), add_string))",
        "out_data.push_back(self.create_buffer("
        "__import__('numpy').frombuffer(add_string.encode(), 'uint8')))",
    ],
    ids=["bytes", "text", "array"],
)
def test_a_service_answers_text(tmp_path, give):
    write_unit(
        tmp_path / "flowunit",
        "hello",
        "HelloFlowUnit",
        HELLO.format(give=give),
        ["in_data"],
        ["out_data"],
        stream=False,
    )
    port = free_port()
    dot = f"""
        httpserver_sync_receive[type=flowunit, flowunit=httpserver_sync_receive_v2, device=cpu, time_out_ms=5000, endpoint="http://127.0.0.1:{port}/v1/demo", max_requests=100]
        hello[type=flowunit, flowunit=hello, device=cpu, deviceid=0, label="<in_data> | <out_data>"]
        httpserver_sync_reply[type=flowunit, flowunit=httpserver_sync_reply, device=cpu]
        httpserver_sync_receive:out_request_info -> hello:in_data
        hello:out_data -> httpserver_sync_reply:in_reply_info
    """.replace("receive_v2", "receive")  # noqa: E501 - as the editor writes it
    with served(tmp_path, port, dot) as client:
        # Requests of clients of that framework sometimes end with a NUL.
        for body in (json.dumps({"msg": "wörld"}), json.dumps({"msg": "wörld"}) + chr(0)):
            status, answer, _ = asked(client, body.encode())
            assert (status, answer.decode().rstrip(chr(0))) == (200, "Hello wörld!")
        # the unit failed, and no message says that the data is bad
        assert asked(client, b"{")[0] == 500


DECODE = """
import base64, json
import cv2
import numpy as np


class DecodeFlowUnit(modelbox.FlowUnit):
    def open(self, config):
        return modelbox.Status.StatusCode.STATUS_SUCCESS

    def process(self, data_context):
        outs = data_context.output("out_image")
        for buffer in data_context.input("in_data"):
            body = json.loads(buffer.as_object())
            raw = np.frombuffer(base64.b64decode(body["image_base64"]), np.uint8)
            img = cv2.imdecode(raw, cv2.IMREAD_COLOR)
            out = modelbox.Buffer(self.get_bind_device(), {payload})
            out.set("width", img.shape[1])
            out.set("height", img.shape[0])
            out.set("width_stride", img.shape[1] * 3)
            out.set("height_stride", img.shape[0])
            out.set("channel", 3)
            out.set("pix_fmt", "bgr")
            out.set("layout", "hwc")
            outs.push_back(out)
        return modelbox.Status.StatusCode.STATUS_SUCCESS
"""
ENCODE = """
import cv2
import numpy as np


class EncodeFlowUnit(modelbox.FlowUnit):
    def process(self, data_context):
        outs = data_context.output("out_data")
        for buffer in data_context.input("in_image"):
            width, height, channel = buffer.get("width"), buffer.get("height"), buffer.get("channel")
            assert buffer.get("width_stride") == width * channel
            assert buffer.get("height_stride") == height
            img = np.array(buffer.as_object(), copy=False).reshape((height, width, channel))
            img[:4] = 0  # what as_object gives is one's own
            ok, encoded = cv2.imencode(".png", img)
            outs.push_back(self.create_buffer({encoded}))
        return modelbox.Status.StatusCode.STATUS_SUCCESS
"""  # noqa: E501


@pytest.mark.parametrize(
    ("payload", "encoded"),
    [("img.flatten()", "encoded"), ("img.tobytes()", "encoded.reshape(-1, 1)")],
    ids=["row", "bytes"],
)
def test_a_service_answers_an_encoded_image(tmp_path, payload, encoded):
    units = tmp_path / "flowunit"
    code = DECODE.format(payload=payload)
    write_unit(units, "decode_body", "DecodeFlowUnit", code, ["in_data"], ["out_image"])
    code = ENCODE.replace("{encoded}", encoded)
    write_unit(units, "encode_body", "EncodeFlowUnit", code, ["in_image"], ["out_data"])
    port = free_port()
    dot = f"""
        receive[type=flowunit, flowunit=httpserver_sync_receive, device=cpu, endpoint="http://127.0.0.1:{port}"]
        decode_body[type=flowunit, flowunit=decode_body, device=cpu]
        resize[type=flowunit flowunit=resize device=cpu image_width=32 image_height=24]
        transpose[type=flowunit, flowunit=color_convert, out_pix_fmt=rgb]
        encode_body[type=flowunit, flowunit=encode_body, device=cpu]
        reply[type=flowunit, flowunit=httpserver_sync_reply, device=cpu, content_type="image/png"]
        receive:out_request_info -> decode_body:in_data
        decode_body:out_image -> resize:in_image
        resize:out_image -> transpose:in_image
        transpose:out_image -> encode_body:in_image
        encode_body:out_data -> reply:in_reply_info
    """
    image = np.random.default_rng(0).integers(0, 255, (48, 64, 3), np.uint8)
    body = {"image_base64": base64.b64encode(cv2.imencode(".png", image)[1]).decode()}
    with served(tmp_path, port, dot) as client:
        status, answer, kind = asked(client, json.dumps(body))
    assert (status, kind) == (200, "image/png")
    expected = cv2.resize(image, (32, 24))[..., ::-1].copy()
    expected[:4] = 0
    assert np.array_equal(cv2.imdecode(np.frombuffer(answer, np.uint8), 1), expected)
