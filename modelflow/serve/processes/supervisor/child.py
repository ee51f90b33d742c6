"""The supervisor's view of a child process, and the slot that the supervisor keeps filled."""

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

# Seconds for a failed process to end by itself.
_LAST_SECONDS = 5.0
# Seconds between two pulses, and seconds in which a process must answer a pulse. The first answer
# may take longer, because the process first imports modules and reads disks.
_PULSE_SECONDS = 5.0
_STILL_SECONDS = 30.0
_BEGIN_SECONDS = 300.0

Answer = Callable[["ChildServer", Message], Awaitable[Message]]
"""The handler of requests of a replica."""


class ReplicaGone(ConnectionError):  # noqa: N818 - not a programming error
    """The signal that the replica has ended or is about to, and answers no more requests."""


class ChildServer:
    """A child process that serves. For the supervisor's thread.

    Attributes:
        role: The role of the process.
        number: The number of the process in its role, from 1.
        name: The name of the process in messages.
        is_ready: The process serves.
        loaded: The ready message of the process: ``models``, ``unready``.
        failure: The failure message of a process that could not start: ``text``, ``code``.
        takes_sequences: The process has a model for sequences of requests.
        suspects: The versions that may have crashed the process, after its end.
        fault: Python's report of a fatal error, after the end of the process. ``""`` without one.
    """

    def __init__(  # noqa: PLR0913 - its identity and its callbacks
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
        """Stores the settings, and starts no process yet.

        Args:
            role: The role of the process.
            number: The number of the process in its role.
            name: The name of the process in messages.
            acceptor: Hands connections to the process.
            answer: Answers the requests of the process.
            loaded: Called with each version that the process has loaded.
            acquit: Called with each version that was out of service and is tried again.
            environment: The environment of the process.
        """
        self.role, self.number, self.name = role, number, name
        self._environment = environment
        self.is_ready = self.takes_sequences = False
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
        on_sequences: Callable[["ChildServer"], object],
    ) -> None:
        """Starts the process.

        Args:
            first: Returns the first message. Called late, because the process gets all further
                changes as messages of their own.
            grpc: The socket for gRPC, which the process inherits.
            on_ready: Called when the process takes connections.
            on_sequences: Called when the process has its first model for sequences of requests.

        Raises:
            OSError: no further process can be started. Everything is closed again.
        """
        self._on_ready, self._on_sequences = on_ready, on_sequences
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
        # A separate process group, because only the supervisor handles a Ctrl-C at the terminal.
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "modelflow", "replica", str(given[0])),
            stdin=subprocess.DEVNULL,
            env=self._environment,
            pass_fds=given,
            process_group=0,
        )

    def link(self, ends: ChannelDescriptors, peer: int) -> None:
        """Sends the process its side of a link to another process, and closes the side here.

        Args:
            ends: The descriptors of the side.
            peer: The number of the other process if it has an isolated model, else 0.
        """
        give(self._fd_channel, ends, peer)

    async def wait_until_ended(self) -> int:
        """Waits until the process has ended.

        Returns the exit code, or the negative signal number.
        """
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
        """Sends a request to the process, and returns the answer.

        Raises:
            ReplicaGone: the process has ended.
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
        """Kills the process when its event loop no longer turns.

        Returns after the end of the process.

        A process that is stopped, or whose C code holds the GIL, answers no requests. It cannot
        interrupt that code itself.
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
        """Sends a message, unless the process has ended."""
        if not self._has_spoken_out:
            self._writer.write(frame(message))

    def finish(self) -> None:
        """Asks the process to answer its remaining requests and end."""
        self._handover.close()
        self._send(signal.SIGTERM)

    def end(self) -> None:
        """Asks the process to end at once."""
        self._writer.close()
        if not self.is_ready:  # the process may not read messages yet
            self.finish()

    def kill(self) -> None:
        """Kills the process."""
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        # Not `self._process.kill()`: it polls the process first, and may then take the exit code
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
        """Closes the channels, and fails all open requests."""
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
        elif "takes_sequences" in message:
            self.takes_sequences = True
            self._on_sequences(self)
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
    """Returns a description of how a process has ended."""
    if code >= 0:
        return f"has ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"was ended by {name}"


class Slot:
    """A slot that replaces its process after the process has ended. For the supervisor's thread.

    Attributes:
        name: The name of the process in messages.
        replica: The process, or None while the slot is empty.
    """

    def __init__(self, name: str, make: Callable[[], ChildServer], backoff: Backoff) -> None:
        """Stores the name, the factory of processes, and the backoff."""
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
        """Keeps the slot filled until `give_up`.

        Args:
            start: Starts a process. When it returns, the process has all its first messages.
            lost: Called with a process that has ended, and its exit code, or None if it could not
                start. Returns False if the process is not to be replaced.
        """
        loop = asyncio.get_running_loop()
        while not self._is_over.is_set():
            replica, began = self._make(), loop.time()
            try:
                await start(replica)
            except OSError as error:  # too many processes or descriptors, or no memory
                code: int | None = None
                replica.failure = {"text": f"it cannot be started: {error}", "code": 1}
            else:
                self.replica = replica  # not earlier, because messages can be sent only now
                if self._is_over.is_set():
                    replica.end()
                code = await replica.wait_until_ended()
                self.replica = None
            if self._is_over.is_set():
                if replica.failure is not None:  # an end with an error
                    logger.error("%s: %s", self.name, replica.failure["text"])
                return
            if not lost(replica, code):
                return
            pause = self._backoff.after(loop.time() - began)
            self._tell(replica, code, pause)
            await self._wait(pause)

    def give_up(self) -> None:
        """Stops the replacement of the process."""
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
