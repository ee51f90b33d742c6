"""``file_source``: reads the bytes of files."""

from dataclasses import dataclass

from modelflow import FlowUnitSpec, Port, option


@dataclass(frozen=True)
class FileSourceOptions:
    """The options of ``file_source``."""

    path: str = option(
        help="A file, a folder (the files in it), or a pattern with * ? [] and ** for any folders. "
        "A relative path in a graph file is relative to that file.",
        is_path=True,
    )
    repeat: int = option(1, help="How many times to read the files; -1: without end.", minimum=-1)
    extensions: tuple[str, ...] = option(
        (),
        help="Read only files with one of these endings ('jpg,png'). By default every file is "
        "read.",
    )
    max_bytes: int = option(
        256 << 20, help="The largest file to read, in bytes; a larger one is an error.", minimum=1
    )

    def __post_init__(self) -> None:
        """Checks the values.

        Raises:
            ValueError: the path is empty, or ``repeat`` is 0.
        """
        if not self.path:
            raise ValueError(
                "option 'path': got an empty text; expected a file, a folder or a pattern"
            )
        if self.repeat == 0:
            raise ValueError(
                "option 'repeat': got 0; expected a number of times, or -1 without end"
            )


SPEC = FlowUnitSpec(
    name="file_source",
    devices={"cpu": "flowunits.file_source.cpu:FileSource"},
    outputs=(
        Port(
            "out_data",
            "bytes of a file, with the meta path (absolute) and index (from 0). The files are in "
            "natural order of their paths: 2.jpg before 10.jpg",
        ),
    ),
    options=FileSourceOptions,
    description="Reads one file, the files of a folder, or the files that match a pattern.",
    group="Input",
    refuses_with=ValueError,
)
