"""``httpserver_sync_receive`` on the CPU."""

from flowunits.httpserver_sync_receive import HttpserverSyncReceiveOptions
from modelflow import Context, FlowUnit
from modelflow.http.request_source import RequestSource


class HttpserverSyncReceive(FlowUnit):
    """Runs an HTTP server on its own thread until the unit is closed."""

    def open(self, config: HttpserverSyncReceiveOptions) -> None:
        """Reserves the address.

        Raises:
            OSError: the address is in use, or does not belong to this machine.
            ValueError: another unit serves the path, or certificate or key cannot be read.
        """
        self.source = RequestSource(config, is_waiting=True, time_out=config.time_out_ms / 1e3)

    def begin(self) -> None:
        """Begins to accept requests.

        Raises:
            OSError: another process has begun to listen at the address.
        """
        self.source.listen()

    def process(self, ctx: Context) -> None:
        """Emits the requests that have arrived."""
        self.source.process(ctx)

    def close(self) -> None:
        """Stops the server after the replies to the requests in progress."""
        self.source.close()
