"""``video_input``: emits the address of a video."""

from dataclasses import dataclass

from modelflow import FlowUnitSpec, Port, Source, option


@dataclass(frozen=True)
class VideoInputOptions:
    """The options of ``video_input``."""

    source_url: str = option(
        help="A file, or a stream: rtsp://, http://, ... A relative path in a graph file is "
        "relative to that file.",
        is_path=True,
    )
    repeat: int = option(
        1,
        help="How many times to emit the address. The videos run at the same time.",
        minimum=1,
        maximum=100_000,
    )

    def __post_init__(self) -> None:
        """Checks the values.

        Raises:
            ValueError: the address is empty.
        """
        if not self.source_url:
            raise ValueError(
                "option 'source_url': got an empty text; expected a file or an address"
            )


SPEC = FlowUnitSpec(
    name="video_input",
    devices={"cpu": "flowunits.video_input.cpu:VideoInput"},
    outputs=(
        Port(
            "out_video_url",
            "the address as text, with the meta source_url and repeat (from 0). Each address is a "
            "session of its own",
        ),
    ),
    options=VideoInputOptions,
    kind=Source(opens_sessions=True),
    description="Emits the address of a video, once or several times, each in its own session.",
    group="Input",
    refuses_with=ValueError,
)
