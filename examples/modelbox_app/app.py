"""An application in the style of ModelBox's Python SDK, in which only the import differs."""

import os
import sys

import cv2
import numpy as np

import modelflow.compat.modelbox as modelbox

UNITS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "units")


def mean_value(data_context):
    """Emits the mean of each image as text."""
    for buffer in data_context.input("image"):
        text = f"{np.array(buffer).mean():.1f}"
        data_context.output("text").push_back(modelbox.Buffer(modelbox.Device(), text))
    return modelbox.Status.StatusCode.STATUS_SUCCESS


def build_graph():
    """Returns the graph input -> image_decoder -> brightness -> mean_value -> output."""
    desc = modelbox.FlowGraphDesc()
    desc.set_drivers_dir([UNITS])
    desc.set_queue_size(32)
    source = desc.add_input("input")
    decoded = desc.add_node("image_decoder", "cpu", source)
    dark = desc.add_node(
        "brightness", "cpu", ["brightness=0.25"], {"in_image": decoded["out_image"]}
    )
    text = desc.add_function(mean_value, ["image"], ["text"], dark)
    desc.add_output("image", dark)
    desc.add_output("text", text)
    return desc


def jpegs():
    """Yields three pictures, each of one grey."""
    for grey in (40, 120, 200):
        image = np.full((48, 64, 3), grey, np.uint8)
        yield cv2.imencode(".jpg", image)[1].tobytes()


def by_stream(flow):
    """Sends and receives one buffer at a time."""
    stream = flow.create_stream_io()
    for data in jpegs():
        stream.send("input", data)
    stream.close_input()
    found = []
    while (buffer := stream.recv("text")) is not None:
        image = np.array(stream.recv("image"))
        found.append(f"{image.shape} {buffer}")
    return found


def by_lists(flow):
    """Sends and receives lists."""
    external = flow.create_external_data_map()
    buffers = external.create_buffer_list()
    for data in jpegs():
        buffers.push_back(modelbox.Buffer(buffers.get_device(), data))
    external.send("input", buffers)
    external.close()
    found, outputs = [], modelbox.ExtOutputBufferList()
    while True:
        status = external.recv(outputs)
        if status != modelbox.Status.StatusCode.STATUS_SUCCESS:
            break
        found += [str(buffer) for buffer in outputs.get_buffer_list("text")]
    print("the session ended with:", status)
    return found


def by_model():
    """Calls the unit directly."""
    model = modelbox.Model(UNITS, "brightness", 4, "cpu", "0")
    if not model.start():
        return None
    (found,) = model.infer([np.full((2, 2, 3), 100, np.uint8)])
    model.stop()
    return np.array(found)[0, 0, 0]


def main():
    modelbox.set_log_level(modelbox.Log.Level.WARN)
    flow = modelbox.Flow()
    status = flow.init(build_graph())
    if not status:
        print("init failed:", status.wrap_errormsgs())
        return 1
    status = flow.start_run()
    if not status:
        print("start failed:", status.wrap_errormsgs())
        return 1
    print("a buffer at a time:", by_stream(flow))
    print("lists:", by_lists(flow))
    flow.stop()
    print("the unit by itself:", by_model())
    return 0


if __name__ == "__main__":
    sys.exit(main())
