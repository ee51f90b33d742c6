"""Inputs and outputs of the attacked graphs."""

import cv2
import numpy as np

FILES = """[graph]
graphconf = '''digraph files {
    read[flowunit=file_source, path="pictures"]
    decode[flowunit=image_decoder]
    shrink[flowunit=resize, image_width=64, image_height=64, threads=2, workers=WORKERS]
    encode[flowunit=image_encoder, format=png]
    write[flowunit=file_sink, path="written/{stem}.png"]
    read -> decode -> shrink -> encode -> write
}'''
"""


def write_pictures(folder, count, broken=()):
    """Writes ``count`` pictures, of which the numbers in ``broken`` are cut off."""
    folder.mkdir()
    noise = np.random.default_rng(0).integers(0, 255, (200, 200, 3), np.uint8)
    for number in range(count):
        path = folder / f"{number}.jpg"
        cv2.imwrite(str(path), noise)
        if number in broken:
            path.write_bytes(path.read_bytes()[:200])


def check_outputs(folder):
    """Checks for incomplete outputs and drafts; deletes the outputs and returns their count."""
    files = list(folder.iterdir())
    for file in files:
        assert not file.name.startswith("."), f"a draft is left: {file.name}"
        if file.suffix == ".png":
            assert cv2.imread(str(file)) is not None, f"{file.name} is cut off"
        else:
            video = cv2.VideoCapture(str(file))
            assert video.isOpened(), f"{file.name} is cut off"
            assert video.read()[0], f"{file.name} has no frame"
            video.release()
        file.unlink()
    return len(files)
