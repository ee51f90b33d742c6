"""Real videos with moving shapes, made in a moment."""

import av
import numpy as np

WIDTH, HEIGHT, RATE = 160, 120, 25


def picture(number, width=WIDTH, height=HEIGHT):
    """Frame ``number``: a bright square that moves, on a ground that changes."""
    pixels = np.full((height, width, 3), 40, np.uint8)
    pixels[..., 0] = number * 3 % 256
    left = number * 2 % (width - 24)
    pixels[30:54, left : left + 24] = 255
    return pixels


def write_video(path, count=60, codec="libx264", size=(WIDTH, HEIGHT), rotation=0, **options):
    """Writes a video; returns its path."""
    with av.open(str(path), "w", options=options) as container:
        stream = container.add_stream(codec, rate=RATE)
        stream.width, stream.height = size
        stream.pix_fmt = "yuv420p"
        stream.codec_context.gop_size = 12
        if rotation:
            stream.set_display_rotation(rotation)
        for number in range(count):
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
