"""``httpserver_sync_receive`` on the CPU."""

from flowunits.httpserver_sync_receive import HttpserverSyncReceiveOptions
from modelflow import Context, FlowUnit
from modelflow.http.request_source import RequestSource


class HttpserverSyncReceive(FlowUnit):
    """A server on a thread of its own, which lives as long as the unit is open."""

    def open(self, config: HttpserverSyncReceiveOptions) -> None:
        """Takes the address.

        Raises:
            OSError: the address is in use, or not of this machine.
            ValueError: the path is taken, or certificate or key cannot be read.
        """
        self.source = RequestSource(config, is_waiting=True, time_out=config.time_out_ms / 1e3)

    def begin(self) -> None:
        """Begins to take requests.

        Raises:
            OSError: another process has begun to listen there.
        """
        self.source.listen()

    def process(self, ctx: Context) -> None:
        """Gives the requests that wait."""
        self.source.process(ctx)

    def close(self) -> None:
        """Ends the server; requests under way are answered first."""
        self.source.close()
