"""``httpserver_sync_reply``: answers HTTP requests."""

from dataclasses import dataclass

from modelflow import FlowUnitSpec, Normal, Port, option


@dataclass(frozen=True)
class HttpserverSyncReplyOptions:
    """The options of ``httpserver_sync_reply``."""

    content_type: str = option(
        "",
        help="The content type of the body. By default it follows from the data: bytes, text, else "
        "JSON.",
    )
    expose_errors: bool = option(
        True,
        help="A 400 reply names the node that refused the data, and the reason. If false, it "
        "holds only an id, and the log has the reason under this id. A 500 reply always holds "
        "only an id.",
    )


SPEC = FlowUnitSpec(
    name="httpserver_sync_reply",
    devices={"cpu": "flowunits.httpserver_sync_reply.cpu:HttpserverSyncReply"},
    inputs=(
        Port(
            "in_reply_info",
            "the body, with the meta status (200) and headers (a mapping). Bytes and text are sent "
            "as they are, other data as JSON (arrays as lists). A buffer with an error is answered "
            "400 if data was refused (BadRequest) and 504 if it was too late. Other errors are "
            "answered 500 with an id under which the log has the error",
        ),
    ),
    options=HttpserverSyncReplyOptions,
    kind=Normal(is_per_stream=True),
    is_exception_visible=True,
    is_exception_given=True,
    threads=1,
    description="Answers the requests of httpserver_sync_receive, including failed ones.",
    group="Output",
    refuses_with=ValueError,
)
