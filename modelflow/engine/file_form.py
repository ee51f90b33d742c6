"""What a file looks like, for messages about files that are no model."""

from pathlib import Path

__all__ = ["looks_like"]

_BEGINNINGS = (
    (b"PK\x03\x04", "a zip archive (Keras and PyTorch models are)"),
    (b"\x89HDF", "an HDF5 file (Keras models ending in .h5 are)"),
    (b"version https://git-lfs", "a Git LFS pointer (git lfs pull fetches the file itself)"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"\x80\x02", "a Python pickle"),
    (b"\x80\x04", "a Python pickle"),
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"<", "a text file (HTML or XML)"),
    (b"{", "a text file (JSON)"),
    (b"node {", "a graph in protobuf's text form"),
)
_TFLITE = b"TFL3"


def looks_like(path: Path) -> str:
    """Returns what the file's first bytes say: ``"a zip archive ..."``, ``"12 unknown bytes"``."""
    size = path.stat().st_size
    if size == 0:
        return "an empty file"
    with path.open("rb") as file:
        start = file.read(32)
    if start[4:8] == _TFLITE:
        return "a TensorFlow Lite model"
    for beginning, name in _BEGINNINGS:
        if start.startswith(beginning):
            return name
    return f"{size} bytes of another format, or cut off"
