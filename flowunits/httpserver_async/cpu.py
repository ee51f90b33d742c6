"""``httpserver_async`` on the CPU."""

from modelflow import Context, FlowUnit
from modelflow.http import ListenOptions
from modelflow.http.request_source import RequestSource

# Seconds within which the whole body of a request must arrive.
_BODY_TIMEOUT = 30.0


class HttpserverAsync(FlowUnit):
    """Runs an HTTP server on its own thread until the unit is closed."""

    def open(self, config: ListenOptions) -> None:
        """Reserves the address.

        Raises:
            OSError: the address is in use, or does not belong to this machine.
            ValueError: another unit serves the path, or certificate or key cannot be read.
        """
        self.source = RequestSource(config, is_waiting=False, time_out=_BODY_TIMEOUT)

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
