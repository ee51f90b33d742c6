"""What to do where a video does not open, or breaks off."""

from dataclasses import dataclass

from modelflow.unit.option import option


@dataclass(frozen=True)
class RetryOptions:
    """When a video is opened again."""

    retry_enable: bool = option(
        False,
        help="Open it again where it does not open, or breaks off; a stream also at its end. A "
        "file goes on behind what was given.",
    )
    retry_interval_ms: int = option(
        1000, help="Milliseconds to wait before.", minimum=0, maximum=3_600_000
    )
    retry_count_limit: int = option(
        -1, help="Most attempts without a packet in between; -1: without end.", minimum=-1
    )
