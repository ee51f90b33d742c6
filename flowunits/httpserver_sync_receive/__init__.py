"""``httpserver_sync_receive``: receives HTTP requests for ``httpserver_sync_reply``."""

from dataclasses import dataclass

from modelflow import FlowUnitSpec, Port, Source, option
from modelflow.http import ListenOptions


@dataclass(frozen=True)
class HttpserverSyncReceiveOptions(ListenOptions):
    """The options of ``httpserver_sync_receive``."""

    time_out_ms: int = option(
        5000,
        help="Milliseconds after which a request is answered 504 and stages not yet begun are "
        "skipped.",
        minimum=1,
        maximum=86_400_000,
    )


SPEC = FlowUnitSpec(
    name="httpserver_sync_receive",
    devices={"cpu": "flowunits.httpserver_sync_receive.cpu:HttpserverSyncReceive"},
    outputs=(
        Port(
            "out_request_info",
            "the body as bytes, with the meta method, uri, headers (a mapping, names in lower "
            "case), client, endpoint and size. Each request is a session of its own",
        ),
    ),
    options=HttpserverSyncReceiveOptions,
    kind=Source(opens_sessions=True),
    description="Receives HTTP requests, which httpserver_sync_reply answers.",
    group="Input",
    requires={"httptools": "serve"},
    refuses_with=ValueError,
)
