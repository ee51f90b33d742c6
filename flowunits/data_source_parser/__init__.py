"""``data_source_parser``: from the description of a data source to its address."""

from dataclasses import dataclass

from modelflow import FlowUnitSpec, Port, option


@dataclass(frozen=True)
class DataSourceParserOptions:
    """The options of ``data_source_parser``: what video_demuxer does where a stream breaks off."""

    retry_enable: bool = option(
        False, help="Open it again where it does not open, or breaks off; a stream also at its end."
    )
    retry_interval_ms: int = option(
        1000, help="Milliseconds to wait before.", minimum=0, maximum=3_600_000
    )
    retry_count_limit: int = option(
        -1, help="Most attempts without a packet in between; -1: without end.", minimum=-1
    )


SPEC = FlowUnitSpec(
    name="data_source_parser",
    devices={"cpu": "flowunits.data_source_parser.cpu:DataSourceParser"},
    inputs=(
        Port(
            "in_data",
            "JSON text or bytes: an object with url, and perhaps url_type (file, stream); the meta "
            "source_type, or its own, must be url",
        ),
    ),
    outputs=(
        Port(
            "out_video_url",
            "the address as text, with the meta source_url, url_type, retry_enable, "
            "retry_interval_ms and retry_count_limit",
        ),
    ),
    options=DataSourceParserOptions,
    description="Reads the description of a data source and gives its address.",
    group="Input",
)
