"""One replica, as its supervisor sees it: a process, and what is said to it and by it."""

import asyncio
import contextlib
import logging
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping

from modelflow.serve.replicas.frames import LongFrameError, Message, frame, next_frame
from modelflow.serve.replicas.porter import Entrance, Porter

__all__ = ["Gone", "ReplicaProcess", "ended_how"]

logger = logging.getLogger(__name__)

# How long one that has failed takes to end by itself.
_LAST_SECONDS = 5.0

Answer = Callable[["ReplicaProcess", Message], Awaitable[Message]]
"""Answers what a replica asks."""


class Gone(ConnectionError):  # noqa: N818 - it is no mistake
    """The replica has ended, or is about to, and answers nothing more."""


class ReplicaProcess:
    """A process that serves. For the supervisor's thread.

    Attributes:
        number: Which replica it is, from 1.
        is_ready: It takes connections.
        loaded: What it said when it was ready: ``models``, ``unready``.
        failure: What it said if it could not begin: ``text``, ``code``.
    """

    def __init__(
        self, number: int, porter: Porter, answer: Answer, environment: Mapping[str, str]
    ) -> None:
        """Takes what it is to be.

        Args:
            number: Which replica it is.
            porter: Who hands connections to it.
            answer: Who answers what it asks.
            environment: Its environment.
        """
        self.number = number
        self._environment = environment
        self.is_ready = False
        self.loaded: Message = {}
        self.failure: Message | None = None
        self._porter = porter
        self._answer = answer
        self._asked: dict[int, asyncio.Future[Message]] = {}
        self._count = 0
        self._answering: set[asyncio.Task[None]] = set()
        self._has_spoken_out = False

    async def start(
        self,
        first: Callable[[], Message],
        grpc: socket.socket | None,
        on_ready: Callable[[], object],
    ) -> None:
        """Starts the process.

        Args:
            first: Gives what it is told first, at the moment from which on it is told the rest.
            grpc: The address for gRPC, which it holds as well.
            on_ready: Called when it takes connections.

        Raises:
            OSError: there can be no other process; nothing is left of it.
        """
        self._on_ready = on_ready
        with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
            (line, its_line), (door, its_door) = socket.socketpair(), socket.socketpair()
            theirs.enter_context(its_line)
            theirs.enter_context(its_door)
            self._entrance = Entrance(door, self._porter.forget)
            ours.callback(self._entrance.close)
            self._reader, self._writer = await asyncio.open_unix_connection(sock=line)
            ours.callback(self._writer.close)
            shared = [] if grpc is None else [grpc.fileno()]
            given = [its_line.fileno(), its_door.fileno(), *shared]
            await self._spawn(given)
            ours.pop_all()
        self._writer.write(frame({**first(), "number": self.number, "descriptors": given}))
        self._listening = asyncio.create_task(self._listen())

    async def _spawn(self, given: list[int]) -> None:
        # A group of its own: a Ctrl-C at the terminal is its supervisor's to hear.
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "modelflow", "replica", str(given[0])),
            stdin=subprocess.DEVNULL,
            env=self._environment,
            pass_fds=given,
            process_group=0,
        )

    async def ended(self) -> int:
        """Waits until it has ended; returns its exit code, or less than 0: the signal's number."""
        code: int = await self._process.wait()
        self._forget()
        await self._listening
        for one in (*self._answering,):
            one.cancel()
        return code

    async def ask(self, message: Message) -> Message:
        """Asks it something.

        Raises:
            Gone: it has ended.
        """
        if self._has_spoken_out:
            raise Gone
        self._count += 1
        number = self._count
        asked = self._asked[number] = asyncio.get_running_loop().create_future()
        try:
            self._writer.write(frame({**message, "ask": number}))
            answer: Message = await asked
        finally:
            del self._asked[number]
        return answer

    def tell(self, message: Message) -> None:
        """Tells it something; nothing is done where it has ended."""
        if not self._has_spoken_out:
            self._writer.write(frame(message))

    def finish(self) -> None:
        """Has it answer what it has taken on, and end."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)

    def end(self) -> None:
        """Has it end at once."""
        self._writer.close()
        if not self.is_ready:  # it may not listen yet
            self.finish()

    def kill(self) -> None:
        """Ends it, whatever it does."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def _listen(self) -> None:
        try:
            while (message := await next_frame(self._reader)) is not None:
                self._hear(message)
        except LongFrameError as error:
            logger.error("replica %d: %s; it is replaced", self.number, error)
            self.kill()
        self._forget()

    def _forget(self) -> None:
        """Asks and hands it nothing more."""
        self.is_ready, self._has_spoken_out = False, True
        self._entrance.close()
        self._writer.close()
        for asked in self._asked.values():
            if not asked.done():
                asked.set_exception(Gone())

    def _hear(self, message: Message) -> None:
        if "answer" in message:
            asked = self._asked.get(message["answer"])
            if asked is not None and not asked.done():
                asked.set_result(message)
        elif "ask" in message:
            answering = asyncio.create_task(self._reply(message))
            self._answering.add(answering)
            answering.add_done_callback(self._answering.discard)
        elif "failure" in message:
            self.failure = message["failure"]
            asyncio.get_running_loop().call_later(_LAST_SECONDS, self.kill)  # a unit may hang
        else:
            self.loaded, self.is_ready = message["ready"], True
            self._porter.add(self._entrance)
            self._on_ready()

    async def _reply(self, message: Message) -> None:
        self.tell({**await self._answer(self, message), "answer": message["ask"]})


def ended_how(code: int) -> str:
    """Returns how a process has ended, in words."""
    if code >= 0:
        return f"has ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"was ended by {name}"
