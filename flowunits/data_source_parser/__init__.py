"""``data_source_parser``: from the description of a data source to its address."""

from modelflow import FlowUnitSpec, Port
from modelflow.video import RetryOptions

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
    options=RetryOptions,
    description="Reads the description of a data source and gives its address.",
    group="Input",
    refuses_with=ValueError,
)
