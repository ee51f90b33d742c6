"""Short real videos with moving shapes, and the frames that a graph reads of them."""

from typing import Any

import av
import numpy as np

import modelflow
from modelflow import Buffer

WIDTH, HEIGHT, RATE = 160, 120, 25
READ = """digraph read {
    input [type=input]
    demux [flowunit=video_demuxer%s]
    decode [flowunit=video_decoder%s]
    output [type=output]
    input -> demux -> decode -> output
}"""
COPY = """digraph copy {
    video [flowunit=video_input, source_url="%s"%s]
    demux [flowunit=video_demuxer]
    decode [flowunit=video_decoder]
    encode [flowunit=video_encoder, default_dest_url="%s"]
    video -> demux -> decode -> encode
}"""
READ_THROUGH_PROCESS = """digraph read {
    input [type=input]
    demux [flowunit=video_demuxer%s]
    pass_on [workers=process, batch_size=4]
    decode [flowunit=video_decoder%s]
    output [type=output]
    input -> demux -> pass_on -> decode -> output
}"""


def picture(number, width=WIDTH, height=HEIGHT):
    """Returns frame ``number``: a bright square that moves over a changing background."""
    pixels = np.full((height, width, 3), 40, np.uint8)
    pixels[..., 0] = number * 3 % 256
    left = number * 2 % (width - 24)
    pixels[30:54, left : left + 24] = 255
    return pixels


def write_video(
    path,
    count=60,
    codec="libx264",
    size=(WIDTH, HEIGHT),
    rotation=0,
    start=0,
    pix_fmt="yuv420p",
    **options,
):
    """Writes a video that begins with picture ``start``; returns its path."""
    with av.open(str(path), "w", options=options) as container:
        stream = container.add_stream(codec, rate=RATE)
        stream.width, stream.height = size
        stream.pix_fmt = pix_fmt
        stream.codec_context.gop_size = 12
        if rotation:
            stream.set_display_rotation(rotation)
        for number in range(start, start + count):
            frame = av.VideoFrame.from_ndarray(picture(number, *size), format="bgr24")
            for packet in stream.encode(frame):
                container.mux(packet)
        for packet in stream.encode():
            container.mux(packet)
    return path


def frames_of(path):
    """Reads a video back as a player does: a list of BGR arrays."""
    with av.open(str(path)) as container:
        return [frame.to_ndarray(format="bgr24") for frame in container.decode(video=0)]


@modelflow.flowunit
def pass_on(packet: Buffer):
    """Forwards a packet; the result of a unit in another process is another object."""
    return packet


def read(path, demux="", decode="", meta=None, graph=READ):
    """Returns the frames and the texts of the errors that an address gives."""
    with modelflow.Flow(graph % (demux, decode), units=[pass_on]) as flow:
        stream = flow.create_stream_io()
        stream.send("input", Buffer(str(path), meta))
        stream.close_input()
        found: list[Any] = []
        while True:
            try:
                found.append(stream.recv("output", timeout=60))
            except modelflow.FlowUnitError as error:
                found.append(str(error))
            except modelflow.EndOfStream:
                break
    frames = [item for item in found if isinstance(item, Buffer)]
    return frames, [item for item in found if isinstance(item, str)], found
