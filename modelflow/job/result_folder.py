"""Results as files of a folder, numbered like their inputs: images, arrays, bytes, JSON."""

import io
import os
import re
from pathlib import Path

import numpy as np

from modelflow.buffer import Buffer
from modelflow.errors import ConfigError
from modelflow.files.json_value import show_value
from modelflow.job.error_report import place_of
from modelflow.wire.json_writer import json_line

_SIGNATURES = ((b"\xff\xd8\xff", ".jpg"), (b"\x89PNG", ".png"), (b"RIFF", ".webp"))
# The most bytes of an input's name in the name of a result; file systems allow 255 in total.
_LONGEST_STEM = 220
_RESULT = re.compile(r"(\d{6,})(_.*)?\.(npy|json|png|jpg|webp|bin)", re.DOTALL)


def encode_result(index: int, buffer: Buffer) -> tuple[str, bytes]:
    """Returns the name and the content of a result's file; the name begins with the number."""
    source = place_of(buffer).get("path", "-")
    name = os.fsdecode(os.fsencode(Path(source).stem)[:_LONGEST_STEM])
    stem = f"{index:06d}" if source == "-" else f"{index:06d}_{name}"
    data = as_png(buffer) if is_image(buffer) else buffer.data
    if isinstance(data, np.ma.MaskedArray):
        raise TypeError("got a masked array, which .npy has no form for; fill it: data.filled(0)")
    if isinstance(data, np.ndarray):
        file = io.BytesIO()
        np.save(file, data, allow_pickle=False)
        return f"{stem}.npy", file.getvalue()
    if isinstance(data, bytes | bytearray | memoryview):
        raw = bytes(data)
        ending = next((end for start, end in _SIGNATURES if raw.startswith(start)), ".bin")
        return f"{stem}{ending}", raw
    text = json_line(show_value(data, is_whole=True))
    return f"{stem}.json", text.encode() + b"\n"


def remove_results(folder: Path, done: int, saved: int, option: str, *, is_begun: bool) -> None:
    """Removes results that were written but not noted, because they are written again.

    Args:
        folder: The folder of the results.
        done: Number of noted inputs.
        saved: Number of noted inputs with a result here; the others are in error.
        option: The option that named the folder, for messages.
        is_begun: Whether an earlier run of the job wrote to this folder.

    Raises:
        ConfigError: The folder has results of another job, or results are missing.
    """
    there: list[tuple[int, Path]] = []
    for path in sorted(folder.iterdir()):
        found = _RESULT.fullmatch(path.name)
        if found and path.is_file():
            there.append((int(found[1]), path))
    kept = len({number for number, _ in there if number < done})
    if kept < saved:
        raise ConfigError(
            f"{option}: {folder} has {kept} results, and had {saved} when the job ended; to start "
            "again, remove the list that --resume names"
        )
    for path in (path for number, path in there if number >= done):
        if not is_begun:
            raise ConfigError(
                f"{option}: {path} is there already, and the list that --resume names knows "
                "nothing of it; remove it, or give another folder"
            )
        path.unlink(missing_ok=True)


def is_image(buffer: Buffer) -> bool:
    """Returns whether a result is an image, and not data with the meta of an image."""
    data = buffer.data
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or not buffer.get("pix_fmt"):
        return False
    from modelflow.image import read_image

    try:
        read_image(buffer, allow_nv12=True)
    except ValueError:
        return False
    return True


def as_png(buffer: Buffer) -> bytes:
    """Returns an image as PNG bytes."""
    from modelflow.image import encode_image, read_image

    return bytes(encode_image(read_image(buffer, allow_nv12=True), "png"))
