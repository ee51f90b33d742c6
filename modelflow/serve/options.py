"""The options of flow units that listen."""

from dataclasses import dataclass

from modelflow.flowunit.option import option
from modelflow.serve.endpoint import read_endpoint

__all__ = ["ListenOptions"]


@dataclass(frozen=True)
class ListenOptions:
    """What every flow unit that takes requests can be told."""

    endpoint: str = option(
        "http://127.0.0.1:8080",
        help="Where to listen: http or https, host, port (0: any that is free), and the beginning "
        "of the paths that are served. Other machines reach it only at an address of the network, "
        "or 0.0.0.0.",
    )
    max_requests: int = option(
        1000,
        help="Most requests that have no answer yet, or that the graph has not taken yet; one more "
        "is answered 503.",
        minimum=1,
        maximum=1_000_000,
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
