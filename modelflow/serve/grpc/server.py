"""What both servers of gRPC have in common."""

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
    """Answers calls on the event loop of an HTTP server; see `GuestServer`.

    Attributes:
        address: Where it answers: ``127.0.0.1:8500``.
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
        """Takes what to answer; `start` begins.

        Args:
            bound: A socket with the address (see `grpc_socket`); the caller's to close. Where it
                is shared (see `share`) others may listen there, too.
            services: What there is to call; health and reflection are added.
            options: What calls may cost, and the certificate.
            budget: Where the bytes of messages that are worked on are taken from.
            health: What probes are told.
            middleware: What every call passes first.
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
        """Begins to answer.

        Raises:
            ConfigError: the certificate is not to be used.
            OSError: somebody else listens there.
        """

    @abc.abstractmethod
    async def close(self, seconds: float) -> None:
        """Ends it: no new calls, no further messages in streams; those that came are answered.

        May be called again before it has ended: the shortest time counts.

        Args:
            seconds: How long it waits for that; then it cancels what is left.
        """
