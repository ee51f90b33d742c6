"""``output_broker``: sends results to files, webhooks and other targets, with retries."""

from dataclasses import dataclass
from typing import Literal

from modelflow import FlowUnitSpec, Port, Stream, option


@dataclass(frozen=True)
class OutputBrokerOptions:
    """The options of ``output_broker``."""

    brokers: str = option(
        "",
        help="The targets, as a JSON list of objects with type, name and cfg. The type is webhook, "
        "file, or the type of a plug-in. A webhook's cfg has url, and optionally headers and "
        "timeout_ms. A file's cfg has path, in which {index} and other meta in braces are "
        "replaced. The key 'brokers' of a session's context replaces this option.",
    )
    mode: Literal["sync", "async"] = option(
        "sync",
        help="sync: a result is sent after the results before it are sent or given up. async: each "
        "result is sent as soon as possible.",
    )
    retry_count_limit: int = option(0, help="The most further attempts; -1: no limit.", minimum=-1)
    retry_interval_base_ms: int = option(
        100, help="Milliseconds before the second attempt.", minimum=0, maximum=86_400_000
    )
    retry_interval_increment_ms: int = option(
        100,
        help="Milliseconds to add to the delay of each further attempt.",
        minimum=0,
        maximum=86_400_000,
    )
    retry_interval_limit_ms: int = option(
        10_000, help="The most milliseconds between attempts.", minimum=0, maximum=86_400_000
    )
    queue_size: int = option(
        100,
        help="The most results of a session that wait for another attempt. One more is an error.",
        minimum=1,
        maximum=1_000_000,
    )


SPEC = FlowUnitSpec(
    name="output_broker",
    devices={"cpu": "flowunits.output_broker.cpu:OutputBroker"},
    inputs=(
        Port(
            "in_output_info",
            "bytes or text, which are sent as they are, or other data, sent as JSON. The meta "
            "output_broker_names ('a|b') names the targets. Without it, all targets get the result",
        ),
    ),
    options=OutputBrokerOptions,
    kind=Stream(),
    description="Sends results to files, webhooks and other targets, with retries.",
    group="Output",
    refuses_with=ValueError,
)
