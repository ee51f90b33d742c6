"""Writes a video in which a circle, a square and a triangle move and turn.

python graphs/models/shapes/make_video.py shapes.mp4 [--frames 100] [--size 320x240]
"""

import argparse
from pathlib import Path

import av
import numpy as np
from shapes import NAMES, Pixels, draw

COLORS = ((150, 200, 250), (170, 220, 150), (240, 180, 150))
RATE = 25
RADIUS = 22
_SPEED = ((3.1, 1.7), (-2.3, 2.9), (1.9, -2.6))  # pixels a frame


def picture(number: int, width: int, height: int) -> tuple[Pixels, list[tuple[str, int, int]]]:
    """Returns frame ``number``, uint8 (height, width, 3) BGR, and each shape's name and centre.

    The shapes bounce off the sides. Each shape moves in its own lane, and none hides another.
    """
    image = np.full((height, width, 3), 30, np.uint8)
    lane = width // len(NAMES)
    centres = []
    for place, name in enumerate(NAMES):
        across, down = _SPEED[place]
        x = place * lane + RADIUS + 2 + _bounced(number * across, lane - 2 * RADIUS - 4)
        y = RADIUS + 2 + _bounced(number * down + 40 * place, height - 2 * RADIUS - 4)
        draw(image, name, (x, y, RADIUS), COLORS[place], 5.0 * number)
        centres.append((name, x, y))
    return image, centres


def _bounced(way: float, room: int) -> int:
    """Returns the position after ``way`` of a point that bounces between walls ``room`` apart."""
    inside = way % (2 * room)
    return round(inside if inside <= room else 2 * room - inside)


def write(path: Path, frames: int, width: int, height: int, encoder: str = "mpeg4") -> None:
    """Writes the video."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream(encoder, rate=RATE)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.bit_rate = 400_000
        for number in range(frames):
            frame = av.VideoFrame.from_ndarray(picture(number, width, height)[0], format="bgr24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())


def main() -> None:
    """Parses the command line and writes the video."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=Path)
    parser.add_argument("--frames", type=int, default=100)
    parser.add_argument("--size", default="320x240", help="WIDTHxHEIGHT")
    parser.add_argument("--encoder", default="mpeg4")
    given = parser.parse_args()
    width, height = (int(side) for side in given.size.split("x"))
    write(given.path, given.frames, width, height, given.encoder)


if __name__ == "__main__":
    main()
