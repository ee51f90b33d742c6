"""``file_sink``: writes buffers to files."""

from dataclasses import dataclass
from typing import Literal

from modelflow import FlowUnitSpec, Normal, Port, option


@dataclass(frozen=True)
class FileSinkOptions:
    """The options of ``file_sink``."""

    path: str = option(
        help="The file to write. {index}, {stem} and {name} (both of the meta 'path') and any "
        "other meta key in braces are replaced, with a format as in {index:06d}. A relative path "
        "in a graph file is relative to that file.",
        is_path=True,
    )
    format: Literal["auto", "image", "npy", "json", "jsonl", "bytes", "text"] = option(
        "auto",
        help="auto: by the ending of the path, or else by the data. Endings are .jpg .png .webp "
        ".bmp .tiff .npy .json .jsonl .txt. The format jsonl appends one line per buffer to one "
        "file. Other formats write one file per buffer.",
    )
    quality: int = option(
        95, help="The quality of JPEG and WebP images, 1..100.", minimum=1, maximum=100
    )
    meta: tuple[str, ...] = option(
        (),
        help="Meta keys to write, for json and jsonl. The data is then under the key 'data'.",
    )
    append: bool = option(
        False,
        help="For jsonl: keep the lines of an earlier run. If false, the file is truncated first.",
    )
    overwrite: bool = option(
        False,
        help="Allow a path to be written more than once in a run, for example for a picture that "
        "is always the newest. If false, the second buffer with the same path is an error.",
    )


SPEC = FlowUnitSpec(
    name="file_sink",
    devices={"cpu": "flowunits.file_sink.cpu:FileSink"},
    inputs=(
        Port(
            "in_data",
            "an image, an array, bytes, text, or data that JSON can represent (including Box and "
            "arrays)",
        ),
    ),
    options=FileSinkOptions,
    description="Writes buffers to files. Each file is written completely or not at all, and JSON "
    "lines are appended.",
    group="Output",
    # A second attempt at a batch would write its lines twice.
    batch_size=1,
    max_batch_size=1,
    kind=Normal(is_batch_retried=False),
    threads=1,
    is_shared=True,
    refuses_with=ValueError,
)
