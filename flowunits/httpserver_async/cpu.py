"""``httpserver_async`` on the CPU."""

from modelflow import Context, FlowUnit
from modelflow.http import ListenOptions
from modelflow.http.request_source import RequestSource

# Seconds within which the body of a request must be there.
_BODY_TIMEOUT = 30.0


class HttpserverAsync(FlowUnit):
    """A server on a thread of its own, which lives as long as the unit is open."""

    def open(self, config: ListenOptions) -> None:
        """Takes the address.

        Raises:
            OSError: the address is in use, or not of this machine.
            ValueError: the path is taken, or certificate or key cannot be read.
        """
        self.source = RequestSource(config, is_waiting=False, time_out=_BODY_TIMEOUT)

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
