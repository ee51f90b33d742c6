"""Writes ``in.mp4``: a bright square that moves, 50 frames of 160 x 120."""

from pathlib import Path

import av
import numpy as np

HERE = Path(__file__).resolve().parent


def main() -> None:
    """Writes the video."""
    with av.open(str(HERE / "in.mp4"), "w") as container:
        stream = container.add_stream("mpeg4", rate=25)
        stream.width, stream.height, stream.pix_fmt = 160, 120, "yuv420p"
        for number in range(50):
            pixels = np.full((120, 160, 3), 40, np.uint8)
            pixels[50:66, 2 * number : 2 * number + 16] = 240
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="bgr24")))
        container.mux(stream.encode())
    print("in.mp4: 50 frames")


if __name__ == "__main__":
    main()
