"""A listener for connections from other machines, which must know its key."""

import contextlib
import logging
import pickle
import secrets
import socket
import threading
from collections.abc import Callable, Iterator

from modelflow.ipc.socket_channel import KEY_SIZE, SocketChannel, welcome

logger = logging.getLogger(__name__)

_HANDSHAKE = 5.0  # seconds
# The most connections that have not yet proved the key. Each uses a thread.
_MOST_STRANGERS = 64


class Listener:
    """A listener at an address of its machine, with a thread for each connection.

    Attributes:
        address: Host and port.
        key: The key that clients must know. Each listener has a new key.
    """

    def __init__(
        self,
        host: str,
        answer: Callable[[SocketChannel], None],
        dumps: Callable[..., bytes] = pickle.dumps,
    ) -> None:
        """Starts to listen.

        Args:
            host: The address of the machine.
            answer: Answers the messages of a channel until its end, on a thread for each channel.
            dumps: Pickles the answers.

        Raises:
            OSError: the address is not available.
        """
        self.key = secrets.token_bytes(KEY_SIZE)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, 0), family=family, backlog=128)
        self.address: tuple[str, int] = self._socket.getsockname()[:2]
        self._answer = answer
        self._dumps = dumps
        self._changed = threading.Condition()
        self._is_over = False
        self._strangers: dict[socket.socket, None] = {}  # oldest first
        self._channels: set[SocketChannel] = set()
        self._threads: set[threading.Thread] = set()
        self._keepers = 0
        self._accepting = threading.Thread(target=self._accept, name="modelflow/listener")
        self._accepting.start()

    def stop(self) -> None:
        """Ends every connection, and joins every thread.

        The caller has ended all work of the threads.
        """
        with self._changed:
            self._end()
            threads = list(self._threads)
        self._accepting.join()
        self._socket.close()
        for thread in threads:
            thread.join()

    @contextlib.contextmanager
    def hold(self) -> Iterator[bool]:
        """Counts as a connection inside the block. Yields whether the listener still runs."""
        with self._changed:
            is_over = self._is_over
            self._keepers += 1
        try:
            yield not is_over
        finally:
            with self._changed:
                self._keepers -= 1
                self._changed.notify_all()

    def end_when_alone(self, seconds: float) -> bool:
        """Waits until no connection has existed for some seconds, and then ends the listener.

        Returns:
            False if the listener was stopped before.
        """
        with self._changed:
            while not self._is_over:
                if self._is_used():
                    self._changed.wait()
                elif not self._changed.wait_for(lambda: self._is_used() or self._is_over, seconds):
                    self._end()
                    return True
            return False

    def _is_used(self) -> bool:
        return bool(self._channels or self._keepers)

    def _end(self) -> None:
        """Ends every connection and wakes every thread. The caller holds ``_changed``."""
        self._is_over = True
        self._changed.notify_all()
        for stranger in self._strangers:
            _end(stranger)
        for channel in self._channels:
            channel.end()
        _end(self._socket)  # `accept` returns

    def _accept(self) -> None:
        while True:
            connection: socket.socket | None = None
            try:
                connection, _ = self._socket.accept()
                self._take(connection)
            except (OSError, RuntimeError) as error:  # too many files, or threads
                if connection is not None:
                    connection.close()
                with self._changed:
                    if self._is_over:
                        return
                    # The next connection may succeed.
                    logger.warning("a connection could not be taken: %s", error)
                    self._changed.wait_for(lambda: self._is_over, 1.0)

    def _take(self, connection: socket.socket) -> None:
        """Starts a thread that checks and serves a connection.

        Raises:
            RuntimeError: the process has too many threads.
        """
        with self._changed:
            if self._is_over:
                connection.close()
                return
            if len(self._strangers) >= _MOST_STRANGERS:
                oldest = next(iter(self._strangers))  # it has had the most time to prove the key
                del self._strangers[oldest]
                _end(oldest)
            self._strangers[connection] = None
            thread = threading.Thread(
                target=self._serve, args=(connection,), name="modelflow/connection"
            )
            self._threads.add(thread)
            try:
                thread.start()
            except RuntimeError:
                self._strangers.pop(connection)
                self._threads.discard(thread)
                raise

    def _serve(self, connection: socket.socket) -> None:
        channel: SocketChannel | None = None
        try:
            welcome(connection, self.key, _HANDSHAKE)
            channel = SocketChannel(connection, self._dumps)
            with self._changed:
                if self._is_over or connection not in self._strangers:
                    return
                del self._strangers[connection]
                self._channels.add(channel)
                self._changed.notify_all()
            self._answer(channel)
        except OSError as error:
            logger.warning("a connection was refused: %s", error)
        finally:
            with self._changed:
                self._strangers.pop(connection, None)
                if channel is not None:
                    self._channels.discard(channel)
                self._threads.discard(threading.current_thread())
                self._changed.notify_all()
            connection.close()


def _end(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # already ended
        connection.shutdown(socket.SHUT_RDWR)
