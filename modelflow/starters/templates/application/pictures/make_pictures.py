"""Writes sample pictures, and a file that is no picture, into ``pictures/``."""

from pathlib import Path

import cv2
import numpy as np

HERE = Path(__file__).resolve().parent
BGR = {"blue": (200, 60, 40), "green": (50, 180, 70), "red": (40, 50, 210)}


def main() -> None:
    """Writes ten pictures of each colour, 320 x 240, and a broken file."""
    folder = HERE / "pictures"
    folder.mkdir(exist_ok=True)
    numbers = np.random.default_rng(2)
    for colour, bgr in BGR.items():
        for number in range(10):
            noise = numbers.normal(0, 20, (240, 320, 3))
            picture = np.clip(np.array(bgr) + noise, 0, 255).astype(np.uint8)
            cv2.imwrite(str(folder / f"{colour}_{number}.jpg"), picture)
    (folder / "broken.jpg").write_bytes(b"this is no picture")
    print(f"{len(list(folder.iterdir()))} files in pictures/, one of them broken")


if __name__ == "__main__":
    main()
