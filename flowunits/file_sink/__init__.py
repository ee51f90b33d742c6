"""``file_sink``: buffers to files."""

from dataclasses import dataclass
from typing import Literal

from modelflow import FlowUnitSpec, Normal, Port, option


@dataclass(frozen=True)
class FileSinkOptions:
    """The options of ``file_sink``."""

    path: str = option(
        help="The file to write; {index}, {stem} and {name} (of the meta 'path') and any other "
        "meta key in braces are filled in, with a format as in {index:06d}; in a graph file "
        "relative to that file.",
        is_path=True,
    )
    format: Literal["auto", "image", "npy", "json", "jsonl", "bytes", "text"] = option(
        "auto",
        help="auto: by the ending of the path (.jpg .png .webp .bmp .tiff, .npy, .json, .jsonl, "
        ".txt), else by the data. jsonl appends a line a buffer to one file, the others write a "
        "file a buffer.",
    )
    quality: int = option(
        95, help="The quality of JPEG and WebP images, 1..100.", minimum=1, maximum=100
    )
    meta: tuple[str, ...] = option(
        (),
        help="json and jsonl: meta keys to write along; the data is then under the key 'data'.",
    )
    append: bool = option(
        False, help="jsonl: keep the lines of an earlier run; false: begin the file anew."
    )
    overwrite: bool = option(
        False,
        help="Let a path be written more than once in a run, so that the last buffer stays (one "
        "picture that always is the newest); false: the second is in error.",
    )


SPEC = FlowUnitSpec(
    name="file_sink",
    devices={"cpu": "flowunits.file_sink.cpu:FileSink"},
    inputs=(
        Port(
            "in_data",
            "an image, an array, bytes, text, or anything that JSON can hold (Box and arrays "
            "included)",
        ),
    ),
    options=FileSinkOptions,
    description="Writes buffers to files, each whole or not at all, or as lines of JSON.",
    group="Output",
    # A batch that is tried again would write its lines twice.
    batch_size=1,
    max_batch_size=1,
    kind=Normal(is_batch_retried=False),
    threads=1,
    is_shared=True,
    refuses_with=ValueError,
)
