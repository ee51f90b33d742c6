"""``output_broker``: results to files, webhooks, and other targets, with retries."""

from dataclasses import dataclass
from typing import Literal

from modelflow import FlowUnitSpec, Port, Stream, option


@dataclass(frozen=True)
class OutputBrokerOptions:
    """The options of ``output_broker``."""

    brokers: str = option(
        "",
        help="The targets, as JSON: a list of objects with type (webhook, file, or that of a "
        "plug-in), name, and cfg: webhook url, and perhaps headers and timeout_ms; file path, with "
        "{index} and other meta filled in. A session's own 'brokers', in its context, go before.",
    )
    mode: Literal["sync", "async"] = option(
        "sync",
        help="sync: a result goes when those before it have gone, or are given up; async: each as "
        "soon as it can.",
    )
    retry_count_limit: int = option(0, help="How often to try again; -1: without end.", minimum=-1)
    retry_interval_base_ms: int = option(
        100, help="Milliseconds before the second attempt.", minimum=0, maximum=86_400_000
    )
    retry_interval_increment_ms: int = option(
        100, help="Milliseconds more before each further one.", minimum=0, maximum=86_400_000
    )
    retry_interval_limit_ms: int = option(
        10_000, help="Most milliseconds between attempts.", minimum=0, maximum=86_400_000
    )
    queue_size: int = option(
        100,
        help="Most results of a session that wait for another attempt; one more is an error.",
        minimum=1,
        maximum=1_000_000,
    )


SPEC = FlowUnitSpec(
    name="output_broker",
    devices={"cpu": "flowunits.output_broker.cpu:OutputBroker"},
    inputs=(
        Port(
            "in_output_info",
            "bytes or text as they are, anything else as JSON; the meta output_broker_names "
            "('a|b') names the targets, none: all",
        ),
    ),
    options=OutputBrokerOptions,
    kind=Stream(),
    description="Sends results to files, webhooks and other targets, with retries.",
    group="Output",
    refuses_with=ValueError,
)
