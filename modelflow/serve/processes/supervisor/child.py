"""One replica process as its supervisor sees it, and the slot that is kept filled."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from modelflow.ipc.fd_channel import give
from modelflow.ipc.shared_memory import ChannelDescriptors
from modelflow.log import LEVELS
from modelflow.serve.activity import Version
from modelflow.serve.processes.control_channel import (
    LongFrameError,
    Message,
    frame,
    next_frame,
)
from modelflow.serve.processes.role import Role
from modelflow.serve.processes.supervisor.acceptor import Acceptor, ConnectionHandover
from modelflow.serve.processes.supervisor.restart import ActivityReader, Backoff, Suspect

logger = logging.getLogger(__name__)

# How long one that has failed takes to end by itself.
_LAST_SECONDS = 5.0
# How often it is looked whether a process stands still, and how long that may be; it may take
# longer until it answers for the first time: it imports, and looks at disks.
_PULSE_SECONDS = 5.0
_STILL_SECONDS = 30.0
_BEGIN_SECONDS = 300.0

Answer = Callable[["ChildServer", Message], Awaitable[Message]]
"""Answers what a replica asks."""


class ReplicaGone(ConnectionError):  # noqa: N818 - it is no mistake
    """The replica has ended, or is about to, and answers nothing more."""


class ChildServer:
    """A process that serves. For the supervisor's thread.

    Attributes:
        role: What it is there for.
        number: Which of its role it is, from 1.
        name: What messages call it.
        is_ready: It serves.
        loaded: What it said when it was ready: ``models``, ``unready``.
        failure: What it said if it could not begin: ``text``, ``code``.
        suspects: The versions that may have ended it, when it has ended.
        fault: What Python has told of a fatal error then; ``""``: of none.
    """

    def __init__(  # noqa: PLR0913 - its place, and who hears it
        self,
        role: Role,
        number: int,
        name: str,
        acceptor: Acceptor,
        answer: Answer,
        loaded: Callable[[Version], object],
        acquit: Callable[[Version], object],
        environment: Mapping[str, str],
    ) -> None:
        """Takes what it is to be.

        Args:
            role: What it is there for.
            number: Which of its role it is.
            name: What messages call it.
            acceptor: Who hands connections to it.
            answer: Who answers what it asks.
            loaded: Told of each version that it has loaded.
            acquit: Told of each that was out of service, and is tried again.
            environment: Its environment.
        """
        self.role, self.number, self.name = role, number, name
        self._environment = environment
        self.is_ready = False
        self.loaded: Message = {}
        self.failure: Message | None = None
        self.suspects: Sequence[Suspect] = ()
        self.fault = ""
        self._acceptor = acceptor
        self._answer = answer
        self._on_loaded, self._acquit = loaded, acquit
        self._asked: dict[int, asyncio.Future[Message]] = {}
        self._count = 0
        self._answering: set[asyncio.Task[None]] = set()
        self._has_spoken_out = self._is_still = False

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
            self._record = ActivityReader()
            ours.callback(self._record.close)
            pairs = [socket.socketpair() for _ in range(3)]
            (line, its_line), (door, its_door), (self._fd_channel, its_fd_channel) = pairs
            for one in (its_line, its_door, its_fd_channel):
                theirs.enter_context(one)
            self._fd_channel.setblocking(False)
            ours.callback(self._fd_channel.close)
            self._handover = ConnectionHandover(door, self._acceptor.forget)
            ours.callback(self._handover.close)
            self._reader, self._writer = await asyncio.open_unix_connection(sock=line)
            ours.callback(self._writer.close)
            shared = [] if grpc is None else [grpc.fileno()]
            sockets = (its_line.fileno(), its_door.fileno(), its_fd_channel.fileno())
            given = [*sockets, *self._record.descriptors, *shared]
            await self._spawn(given)
            ours.pop_all()
        own = {"role": self.role, "number": self.number, "name": self.name, "descriptors": given}
        self._writer.write(frame({**first(), **own}))
        self._reading_task = asyncio.create_task(self._listen())

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

    def link(self, ends: ChannelDescriptors, peer: int) -> None:
        """Gives it its side of a link to another process, which is closed here.

        Args:
            ends: The side.
            peer: The number of the other process: of an isolated model its own, else 0.
        """
        give(self._fd_channel, ends, peer)

    async def wait_until_ended(self) -> int:
        """Waits until it has ended; returns its exit code, or less than 0: the signal's number."""
        code: int = await self._process.wait()
        self._forget()
        await self._reading_task
        with contextlib.closing(self._record) as record:
            self.suspects = record.suspects(code, self._is_still) if self.failure is None else []
            self.fault = record.fault()
        for one in (*self._answering,):
            one.cancel()
        return code

    async def ask(self, message: Message) -> Message:
        """Asks it something.

        Raises:
            ReplicaGone: it has ended.
        """
        if self._has_spoken_out:
            raise ReplicaGone
        self._count += 1
        number = self._count
        asked = self._asked[number] = asyncio.get_running_loop().create_future()
        try:
            self._writer.write(frame({**message, "ask": number}))
            answer: Message = await asked
        finally:
            del self._asked[number]
        return answer

    async def watch(self) -> None:
        """Ends it when its event loop does not turn any more; returns when it has ended.

        A process that was stopped, or in which code in C keeps the interpreter's lock, answers
        nobody, and cannot give that code up itself.
        """
        seconds = _BEGIN_SECONDS
        while True:
            try:
                await asyncio.wait_for(self.ask({"what": "pulse"}), seconds)
                seconds = _STILL_SECONDS
                await asyncio.sleep(_PULSE_SECONDS)
            except ReplicaGone:
                return
            except TimeoutError:
                logger.error("%s has not answered for %g s, and is killed", self.name, seconds)
                self._is_still = True
                self.kill()
                return

    def tell(self, message: Message) -> None:
        """Tells it something; nothing is done where it has ended."""
        if not self._has_spoken_out:
            self._writer.write(frame(message))

    def finish(self) -> None:
        """Has it answer what it has taken on, and end."""
        self._handover.close()
        self._send(signal.SIGTERM)

    def end(self) -> None:
        """Has it end at once."""
        self._writer.close()
        if not self.is_ready:  # it may not listen yet
            self.finish()

    def kill(self) -> None:
        """Ends it, whatever it does."""
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        # The process's own methods look first whether it has ended, and so may take its exit code
        # from the thread that waits for it.
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, number)

    async def _listen(self) -> None:
        try:
            while (message := await next_frame(self._reader)) is not None:
                self._hear(message)
        except LongFrameError as error:
            logger.error("%s: %s; it is replaced", self.name, error)
            self.kill()
        self._forget()

    def _forget(self) -> None:
        """Asks and hands it nothing more."""
        self.is_ready, self._has_spoken_out = False, True
        self._handover.close()
        self._fd_channel.close()
        self._writer.close()
        for asked in self._asked.values():
            if not asked.done():
                asked.set_exception(ReplicaGone())

    def _hear(self, message: Message) -> None:
        if "answer" in message:
            asked = self._asked.get(message["answer"])
            if asked is not None and not asked.done():
                asked.set_result(message)
        elif "ask" in message:
            answering = asyncio.create_task(self._reply(message))
            self._answering.add(answering)
            answering.add_done_callback(self._answering.discard)
        elif "acquitted" in message:
            self._acquit((message["acquitted"], message["version"]))
        elif "doing" in message or "loaded" in message:
            loaded = self._record.hear(message)
            if loaded is not None:
                self._on_loaded(loaded)
        elif "failure" in message:
            self.failure = message["failure"]
            asyncio.get_running_loop().call_later(_LAST_SECONDS, self.kill)  # a unit may hang
        else:
            self.loaded, self.is_ready = message["ready"], True
            if not self.role.is_asked:
                self._acceptor.add(self._handover)
            self._on_ready()

    async def _reply(self, message: Message) -> None:
        self.tell({**await self._answer(self, message), "answer": message["ask"]})


def describe_exit(code: int) -> str:
    """Returns how a process has ended, in words."""
    if code >= 0:
        return f"has ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"was ended by {name}"


class Slot:
    """Starts a process, and another when it ends. For the supervisor's thread.

    Attributes:
        name: Whose place it is, for messages.
        replica: Who is there; None: nobody.
    """

    def __init__(self, name: str, make: Callable[[], ChildServer], backoff: Backoff) -> None:
        """Takes the name, what makes a process that has not started, and when it is replaced."""
        self.name = name
        self.replica: ChildServer | None = None
        self._make = make
        self._backoff = backoff
        self._is_over = asyncio.Event()

    async def keep(
        self,
        start: Callable[[ChildServer], Awaitable[None]],
        lost: Callable[[ChildServer, int | None], bool],
    ) -> None:
        """Keeps it filled until `give_up`.

        Args:
            start: Starts a process, and has told it everything when it returns.
            lost: Told of one that has ended, with its exit code (None: it never began); False: it
                is not replaced.
        """
        loop = asyncio.get_running_loop()
        while not self._is_over.is_set():
            replica, began = self._make(), loop.time()
            try:
                await start(replica)
            except OSError as error:  # of processes, memory or descriptors there are too many
                code: int | None = None
                replica.failure = {"text": f"it cannot be started: {error}", "code": 1}
            else:
                self.replica = replica  # not before: nothing can be said to it
                if self._is_over.is_set():
                    replica.end()
                code = await replica.wait_until_ended()
                self.replica = None
            if self._is_over.is_set():
                if replica.failure is not None:  # what did not end in order
                    logger.error("%s: %s", self.name, replica.failure["text"])
                return
            if not lost(replica, code):
                return
            pause = self._backoff.after(loop.time() - began)
            self._tell(replica, code, pause)
            await self._wait(pause)

    def give_up(self) -> None:
        """Replaces it no more."""
        self._is_over.set()

    def _tell(self, replica: ChildServer, code: int | None, pause: float) -> None:
        when = f"in {pause:g} s" if pause else "at once"
        failure: Mapping[str, Any] = replica.failure or {}
        reason = f" ({failure['text']})" if failure else ""
        message = "%s %s%s; another takes its place %s"
        how = "has not begun" if code is None else describe_exit(code)
        logger.error(message, self.name, how, reason, when)

    async def _wait(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._is_over.wait(), seconds)
        except TimeoutError:
            logger.log(LEVELS["NOTICE"], "%s is started again", self.name)
