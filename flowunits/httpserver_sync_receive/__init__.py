"""``httpserver_sync_receive``: HTTP requests, answered by ``httpserver_sync_reply``."""

from dataclasses import dataclass

from modelflow import FlowUnitSpec, Port, option
from modelflow.serve import read_endpoint


@dataclass(frozen=True)
class HttpserverSyncReceiveOptions:
    """The options of ``httpserver_sync_receive``."""

    endpoint: str = option(
        "http://127.0.0.1:8080",
        help="Where to listen: http or https, host, port (0: any that is free), and the beginning "
        "of the paths that are served. Other machines reach it only at an address of the network, "
        "or 0.0.0.0.",
    )
    max_requests: int = option(
        1000,
        help="Most requests under way; one more is answered 503.",
        minimum=1,
        maximum=1_000_000,
    )
    time_out_ms: int = option(
        5000,
        help="Milliseconds after which a request is answered 504, and no longer worked on.",
        minimum=1,
        maximum=86_400_000,
    )
    keepalive_timeout_sec: int = option(
        200,
        help="Seconds for which a connection stays open between requests.",
        minimum=1,
        maximum=86_400,
    )
    max_body_bytes: int = option(
        64 << 20, help="The longest body; a longer one is answered 413.", minimum=0
    )
    cert: str = option("", help="The certificate (PEM), for https.", is_path=True)
    key: str = option("", help="The key of the certificate (PEM).", is_path=True)

    def __post_init__(self) -> None:
        """Checks the endpoint.

        Raises:
            ValueError: it is none.
        """
        read_endpoint(self.endpoint)


SPEC = FlowUnitSpec(
    name="httpserver_sync_receive",
    devices={"cpu": "flowunits.httpserver_sync_receive.cpu:HttpserverSyncReceive"},
    outputs=(
        Port(
            "out_request_info",
            "the body as bytes, with the meta method, uri, headers (a mapping, names in lower "
            "case), client, endpoint and size; each request is a session of its own",
        ),
    ),
    options=HttpserverSyncReceiveOptions,
    is_session_opened=True,
    description="Takes HTTP requests, which httpserver_sync_reply answers.",
    group="Input",
)
