"""``httpserver_async``: receives HTTP requests and answers them at once."""

from modelflow import FlowUnitSpec, Port, Source
from modelflow.http import ListenOptions

SPEC = FlowUnitSpec(
    name="httpserver_async",
    devices={"cpu": "flowunits.httpserver_async.cpu:HttpserverAsync"},
    outputs=(
        Port(
            "out_request_info",
            "the body as bytes, with the meta method, uri, headers (a mapping, names in lower "
            "case), client, endpoint and size. Each request is a session of its own",
        ),
    ),
    options=ListenOptions,
    kind=Source(opens_sessions=True),
    description="Receives HTTP requests and answers 202 at once.",
    group="Input",
    requires={"httptools": "serve"},
    refuses_with=ValueError,
)
