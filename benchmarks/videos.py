"""Processor time of reading a video: smaller frames, fewer frames, more threads.

Frames of 320 x 180 are made of a video of 1920 x 1080. Each row is one setting of the decoder; the
first row decodes whole pictures, which a unit resizes. The times are per frame of the video.

python benchmarks/videos.py [--quick]
"""

import argparse
import os
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median

import av
import numpy as np
from measure import print_table, take_turns

import modelflow

GRAPH = """digraph videos {{
    address [type=input]
    demux   [flowunit=video_demuxer]
    decode  [flowunit=video_decoder, {decode}]
    {resize}
    frame   [type=output]
    address -> demux -> decode -> {more}frame
}}"""
SMALL = "image_width=320, image_height=180"
SETTINGS = {
    "whole frames, then resize": "",
    "whole frames alone": "",
    "image_width": SMALL,
    "image_width, every=5": f"{SMALL}, every=5",
    "image_width, references_only": f"{SMALL}, references_only=true",
    "image_width, keyframes_only": f"{SMALL}, keyframes_only=true",
    "image_width, codec_threads=0": f"{SMALL}, codec_threads=0, strict=false",
}


def write(path: Path, codec: str, count: int, size: tuple[int, int]) -> None:
    """Writes a video whose smooth background moves."""
    width, height = size
    pixels = np.random.default_rng(1).integers(0, 255, (height // 20 + 8, width // 20 + 16, 3))
    wide = pixels.astype(np.uint8).repeat(20, 0).repeat(20, 1)
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=25)
        stream.width, stream.height, stream.bit_rate = width, height, 8_000_000
        stream.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
        stream.codec_context.gop_size = 50
        for number in range(count):
            left = 2 * number % 300
            picture = np.ascontiguousarray(wide[:height, left : left + width])
            for packet in stream.encode(av.VideoFrame.from_ndarray(picture, format="bgr24")):
                container.mux(packet)
        for packet in stream.encode():
            container.mux(packet)


def run(path: Path, setting: str, count: int) -> tuple[float, float, int]:
    """Returns processor time and time of a frame in milliseconds, and the number of frames."""
    is_resized = setting == next(iter(SETTINGS))
    more = "resize -> " if is_resized else ""
    resize = f"resize  [flowunit=resize, {SMALL}]" if is_resized else ""
    graph = GRAPH.format(decode=SETTINGS[setting] or "every=1", resize=resize, more=more)
    with modelflow.Flow(graph) as flow:
        stream = flow.create_stream_io()
        start, used = time.perf_counter(), time.process_time()
        stream.send("address", str(path))
        stream.close_input()
        frames = sum(1 for _ in stream)
        seconds, used = time.perf_counter() - start, time.process_time() - used
    return used / count * 1e3, seconds / count * 1e3, frames


def main() -> None:
    """Prints a table for each codec."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="short videos, only to see it run")
    quick = parser.parse_args().quick
    count, rounds = (10, 1) if quick else (200, 7)
    size = (480, 272) if quick else (1920, 1080)
    load = os.getloadavg()[0]
    for codec in ("libx264", "mjpeg"):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "video.mkv")
            write(path, codec, count, size)
            programs = {name: partial(run, path, name, count) for name in SETTINGS}
            found = take_turns(programs, rounds)
        rows = []
        base = [median(times) for times in zip(*found[next(iter(SETTINGS))], strict=True)]
        for name, times in found.items():
            used, seconds, frames = (median(column) for column in zip(*times, strict=True))
            rows.append([name, used, used / base[0], seconds, seconds / base[1], int(frames)])
        columns = ("", "CPU ms a frame", "of the first", "ms a frame", "of the first", "frames")
        print_table(f"{codec}, {size[0]} x {size[1]}, load {load:.1f}", columns, rows)


if __name__ == "__main__":
    main()
