"""The base class of both gRPC servers."""

import abc
import socket
from collections.abc import Iterable

from modelflow.http.reply import BodyBudget
from modelflow.serve.access.middleware import Middleware
from modelflow.serve.grpc.address import address_of
from modelflow.serve.grpc.service import Service
from modelflow.serve.grpc.standard_services import Health, Reflection
from modelflow.serve.options import ServeOptions


class GrpcServer(abc.ABC):
    """A gRPC server that runs on the event loop of an HTTP server; see `GuestServer`.

    Attributes:
        address: The address of the server, for example ``127.0.0.1:8500``.
    """

    def __init__(
        self,
        bound: socket.socket,
        services: Iterable[Service],
        options: ServeOptions,
        budget: BodyBudget,
        health: Health,
        middleware: Middleware,
    ) -> None:
        """Stores the services and limits. `start` starts the server.

        Args:
            bound: A socket with the address (see `grpc_socket`), which the caller closes. If the
                socket is shared (see `share`), other processes may listen at the same address.
            services: The services to offer. Health and reflection are added.
            options: The limits on calls, and the certificate.
            budget: The byte budget for messages that are being processed.
            health: The health service for probes.
            middleware: The checks for every call.
        """
        self.address = address_of(bound)
        self._bound = bound
        self._options = options
        self._budget = budget
        self._middleware = middleware
        self._health = health
        known = [*services, *health.services]
        self._services = (*known, *Reflection(known).services)

    @abc.abstractmethod
    async def start(self) -> None:
        """Begins to answer calls.

        Raises:
            ConfigError: The certificate is invalid.
            OSError: The address is in use.
        """

    @abc.abstractmethod
    async def close(self, seconds: float) -> None:
        """Stops the server after the received messages are answered.

        The server accepts no new calls, and no further messages in streams. You may call this
        method again before the end. The shortest time counts.

        Args:
            seconds: Seconds to wait for the replies. After that the server cancels the remaining
                calls.
        """
