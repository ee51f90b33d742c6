"""A replica's end of what its supervisor and it say to one another."""

import contextlib
import socket
import threading
from collections.abc import Callable

from modelflow.serve.replicas.frames import Message, frame, read_frame

__all__ = ["Line"]


class Line:
    """Asks the supervisor, and hears what it says. `say` and `ask` are for any thread."""

    def __init__(self, sock: socket.socket) -> None:
        """Takes the socket, which becomes its own."""
        self._socket = sock
        self._sending = threading.Lock()
        self._asked: dict[int, Callable[[Message], object]] = {}
        self._count = 0
        self._thread: threading.Thread | None = None

    def first(self) -> Message | None:
        """Waits for the first message; None: the supervisor has ended. Before `begin`."""
        return read_frame(self._socket)

    def begin(self, hear: Callable[[Message], object], gone: Callable[[], object]) -> None:
        """Hears from now on, on a thread of its own.

        Args:
            hear: Told of each message that answers nothing.
            gone: Called when the supervisor has ended, however it has, or `close` was called.
        """
        self._thread = threading.Thread(
            target=self._main, args=(hear, gone), name="modelflow/line", daemon=False
        )
        self._thread.start()

    def say(self, message: Message) -> None:
        """Sends a message; it is lost where the supervisor has ended.

        Raises:
            LongFrameError: it is too long.
        """
        data = frame(message)
        try:
            with self._sending:
                self._socket.sendall(data)
        except OSError:
            return  # whoever hears is told

    def ask(self, message: Message, told: Callable[[Message], object]) -> None:
        """Sends a message; ``told`` is called with its answer, on the thread that hears.

        Raises:
            LongFrameError: it is too long.
        """
        with self._sending:
            self._count += 1
            number = self._count
            self._asked[number] = told
        self.say({**message, "ask": number})

    def close(self) -> None:
        """Ends it. May be called again."""
        with contextlib.suppress(OSError):  # the supervisor has ended
            self._socket.shutdown(socket.SHUT_RDWR)
        if self._thread is not None:
            self._thread.join()
        self._socket.close()

    def _main(self, hear: Callable[[Message], object], gone: Callable[[], object]) -> None:
        while (message := read_frame(self._socket)) is not None:
            if "answer" in message:
                self._asked.pop(message["answer"])(message)
            else:
                hear(message)
        gone()
