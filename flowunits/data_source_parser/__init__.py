"""``data_source_parser``: reads the address from the description of a data source."""

from modelflow import FlowUnitSpec, Port
from modelflow.video import RetryOptions

SPEC = FlowUnitSpec(
    name="data_source_parser",
    devices={"cpu": "flowunits.data_source_parser.cpu:DataSourceParser"},
    inputs=(
        Port(
            "in_data",
            "JSON text or bytes: an object with url, and optionally url_type (file, stream). Its "
            "own source_type, or else the meta source_type, must be url",
        ),
    ),
    outputs=(
        Port(
            "out_video_url",
            "the address as text, with the meta source_url, url_type, retry_enable, "
            "retry_interval_ms and retry_count_limit",
        ),
    ),
    options=RetryOptions,
    description="Reads the description of a data source and emits its address.",
    group="Input",
    refuses_with=ValueError,
)
