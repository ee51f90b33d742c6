"""``httpserver_sync_reply``: the answers to HTTP requests."""

from dataclasses import dataclass

from modelflow import FlowUnitSpec, Normal, Port, option


@dataclass(frozen=True)
class HttpserverSyncReplyOptions:
    """The options of ``httpserver_sync_reply``."""

    content_type: str = option(
        "", help="The type of the body; none: by the data (bytes, text, else JSON)."
    )
    expose_errors: bool = option(
        True,
        help="An answer 400 says which node refused the data, and why; false: an id alone, under "
        "which the log says it. An answer 500 never says more.",
    )


SPEC = FlowUnitSpec(
    name="httpserver_sync_reply",
    devices={"cpu": "flowunits.httpserver_sync_reply.cpu:HttpserverSyncReply"},
    inputs=(
        Port(
            "in_reply_info",
            "the body: bytes or text as they are, anything else as JSON (arrays as lists), with "
            "the meta status (200) and headers (a mapping); a buffer in error is answered 400 "
            "where data was refused (BadRequest), 504 where it came too late, else 500 with an id "
            "that stands in the log",
        ),
    ),
    options=HttpserverSyncReplyOptions,
    kind=Normal(is_per_stream=True),
    is_exception_visible=True,
    is_exception_given=True,
    threads=1,
    description="Answers the requests of httpserver_sync_receive, also where they failed.",
    group="Output",
    refuses_with=ValueError,
)
