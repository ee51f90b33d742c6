"""The supervisor of several server processes behind one port. It runs no model itself."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from modelflow.http.server import server_context
from modelflow.ipc.link import new_link
from modelflow.serve.processes.control_channel import Message
from modelflow.serve.processes.role import Role, name_of, with_share
from modelflow.serve.processes.supervisor.acceptor import Acceptor
from modelflow.serve.processes.supervisor.child import ChildServer, Slot, describe_exit
from modelflow.serve.processes.supervisor.coordinator import Coordinator
from modelflow.serve.processes.supervisor.restart import Backoff, DeathCounts

if TYPE_CHECKING:
    from modelflow.http.options import TlsOptions


logger = logging.getLogger(__name__)

# A process that has lived this many seconds was healthy, and is replaced at once. The limit is
# longer for an isolated model. No other model needs its process, and each start slows all others.
_WELL = 10.0
_WELL_ALONE = 60.0
# Seconds after the drain timeout for flows and the interpreter to end. Then the process is killed.
_LAST_SECONDS = 2.0
# The part of these seconds that is reserved for the process with the models.
_LAST_OF_MODELS = 0.5


class StartError(Exception):
    """The error of a replica that could not start, which stops the whole server.

    Attributes:
        code: The exit code of the replica, or the code that it would have.
    """

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Supervisor:
    """A supervisor that starts processes, hands over connections, and replaces ended processes.

    It owns the addresses, every child process, and the signal handlers of this process.
    """

    def __init__(  # noqa: PLR0913 - each is the caller's to set
        self,
        start: Mapping[str, Any],
        role: Role,
        count: int,
        http: socket.socket,
        grpc: socket.socket | None,
        drain_timeout: float,
        drain_delay: float = 0.0,
        tls: "TlsOptions | None" = None,
        isolated: Sequence[str] = (),
    ) -> None:
        """Stores the configuration, and starts no process yet.

        Args:
            start: The first message for each process.
            role: The role of the processes that take connections. `Role.WORKER` adds a process
                with the models.
            count: The number of processes that take connections.
            http: A socket with the address for HTTP. The supervisor owns it.
            grpc: Likewise for gRPC. None without gRPC.
            drain_timeout: Seconds after SIGTERM in which requests under way are still answered.
            drain_delay: Seconds before that in which processes report not ready, but still answer.
            tls: Certificate and key, for the supervisor's own answers while no process lives.
            isolated: The models that have their own processes.
        """
        self._isolated = dict(enumerate(isolated, 1))
        self._start = {
            **start,
            "address": http.getsockname()[:2],
            "count": count,
            "isolated": self._isolated,
        }
        self._http, self._grpc = http, grpc
        self._drain_timeout, self._drain_delay = drain_timeout, drain_delay
        self._acceptor = Acceptor(http, None if tls is None else server_context(tls))
        children = [(role, number) for number in range(1, count + 1)]
        if role is Role.WORKER:
            children.insert(0, (Role.MODELS, 1))
        children += [(Role.ISOLATED, number) for number in self._isolated]
        self._slots = []
        for each in children:
            name = name_of(*each, self._isolated)
            backoff = Backoff(_WELL_ALONE if each[0] is Role.ISOLATED else _WELL)
            self._slots.append(Slot(name, partial(self._make, *each, name), backoff))
        whole = 1 if role is Role.WORKER else count  # the number of processes with all models
        asked = None if role is Role.WORKER else whole
        names = [slot.name for slot in self._slots]
        self._coordinator = Coordinator(
            self._with_models, self._list_accepting, asked, self._isolated, names
        )
        self._environment = with_share(os.environ, whole)
        self._deaths = DeathCounts()
        self._watching: set[asyncio.Task[None]] = set()
        self._has_begun = False

    def run(self, said: Callable[[Message], object], leaving: Callable[[], object]) -> int:
        """Serves until a signal arrives. Call in the main thread.

        Args:
            said: Called once on the event loop when all replicas serve, with the first replica's
                ready message.
            leaving: Called once when the supervisor begins to stop.

        Returns:
            The signal's number.

        Raises:
            OSError: another process listens at the address.
            StartError: a replica of the first start could not start.
        """
        self._said, self._leaving = said, leaving
        with asyncio.Runner() as runner:
            return runner.run(self._main())

    def _replicas(self) -> list[ChildServer]:
        return [slot.replica for slot in self._slots if slot.replica is not None]

    def _with_models(self) -> list[ChildServer]:
        return [one for one in self._replicas() if one.role is not Role.WORKER]

    def _list_accepting(self) -> list[ChildServer]:
        return [one for one in self._replicas() if not one.role.is_asked]

    def _make(self, role: Role, number: int, name: str) -> ChildServer:
        return ChildServer(
            role,
            number,
            name,
            self._acceptor,
            self._coordinator.answer,
            self._deaths.note_loaded,
            self._deaths.forget,
            self._environment,
        )

    async def _main(self) -> int:
        self._ending: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._hurry = asyncio.Event()
        self._listen_to_signals()
        self._keeping = [
            asyncio.create_task(slot.keep(self._begin, self._on_lost)) for slot in self._slots
        ]
        for one in self._keeping:
            one.add_done_callback(self._on_kept)
        try:
            number = await self._ending
        finally:
            self._leaving()
            for slot in self._slots:
                slot.give_up()
            if self._is_drained and self._drain_delay:
                await self._leave()
            self._acceptor.close()
            await self._end()
        return number

    async def _begin(self, replica: ChildServer) -> None:
        # Only the first replica logs messages that are the same in all replicas.
        quiet = not self._has_begun and replica.number > 1

        def first() -> Message:
            return {
                **self._start,
                "changes": self._coordinator.changes,
                "condemned": [[*version, why] for version, why in self._deaths.condemned.items()],
                "suspects": self._deaths.suspects,
                "is_quiet": quiet,
            }

        await replica.start(first, self._grpc, self._look, self._link_replicas)
        watching = asyncio.create_task(replica.watch())
        self._watching.add(watching)
        watching.add_done_callback(self._watching.discard)
        try:
            self._link(replica)
        except OSError as error:  # too many descriptors, or no memory
            replica.failure = {"text": f"it cannot be linked: {error}", "code": 1}
            replica.kill()

    def _link(self, replica: ChildServer) -> None:
        """Links a new process to its peers.

        A link connects a process that forwards requests with a process that has models.
        """
        for other in self._replicas():
            if replica.role.is_asked != other.role.is_asked:
                asked = replica if replica.role.is_asked else other
                peer = asked.number if asked.role is Role.ISOLATED else 0
                for one, ends in zip((replica, other), new_link(), strict=True):
                    one.link(ends, peer)

    def _link_replicas(self, replica: ChildServer) -> None:
        """Links a replica to the others that have models for sequences; see `ReplicaPeers`."""
        for other in self._replicas():
            if other is not replica and other.takes_sequences and other.role is Role.REPLICA:
                for one, peer, ends in zip(
                    (replica, other), (other, replica), new_link(), strict=True
                ):
                    one.link(ends, -peer.number)

    def _look(self) -> None:
        """Starts to accept connections when all replicas are ready.

        Isolated models may load later.
        """
        replicas = [one for one in self._replicas() if one.role is not Role.ISOLATED]
        count = len(self._slots) - len(self._isolated)
        is_all = len(replicas) == count and all(one.is_ready for one in replicas)
        if self._has_begun or not is_all or self._ending.done():
            return
        try:
            self._acceptor.listen()
        except OSError as error:
            self._ending.set_exception(error)
            return
        self._has_begun = True
        self._tell_of_others([one for one in replicas if one.role is not Role.WORKER])
        self._said(self._list_accepting()[0].loaded)

    def _tell_of_others(self, replicas: list[ChildServer]) -> None:
        """Logs models that failed to load in a quiet replica, but not in the first."""
        known = self._own(replicas[0].loaded["unready"])
        for replica in replicas[1:]:
            text = self._own(replica.loaded["unready"])
            if text not in ("", known):
                logger.error("%s: %s", replica.name, text)

    def _own(self, unready: str) -> str:
        """Returns the unready models of a process, except isolated models, which may load later."""
        marks = tuple(f"model {name!r}:" for name in self._isolated.values())
        return "; ".join(one for one in unready.split("; ") if not one.startswith(marks))

    def _on_lost(self, replica: ChildServer, code: int | None) -> bool:
        self._coordinator.on_exit(replica)
        is_known = code is not None and self._judge(replica, code)
        if self._has_begun or is_known or replica.role is Role.ISOLATED:
            return True
        if not self._ending.done():
            failure = replica.failure
            if failure is not None:
                error = StartError(failure["text"], failure["code"])
            else:
                assert code is not None  # without a code, there is a failure
                text = f"{replica.name} {describe_exit(code)} before it served"
                error = StartError(text, code if code > 0 else 1)
            self._ending.set_exception(error)
        return False

    def _judge(self, replica: ChildServer, code: int) -> bool:
        """Counts a process death against the suspected versions. Returns False without suspects."""
        suspects, now = replica.suspects, asyncio.get_running_loop().time()
        if replica.fault:
            logger.error("%s: %s", replica.name, replica.fault)
        for one in suspects:
            (name, version), words = one.version, one.state.words
            text = "%s %s while model %r, version %d, %s"
            logger.error(text, replica.name, describe_exit(code), name, version, words)
        for (name, version), why in self._deaths.note(suspects, now).items():
            logger.error("model %r, version %d, is out of service: %s", name, version, why)
            for other in self._replicas():
                other.tell({"what": "condemn", "version": [name, version, why]})
        return bool(suspects)

    def _on_kept(self, task: "asyncio.Task[None]") -> None:
        """Stops the server after an unexpected error of a slot's task."""
        error = None if task.cancelled() else task.exception()
        if error is not None and not self._ending.done():
            self._ending.set_exception(error)

    # -- the end ----------------------------------------------------------------------------------

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)
        loop.add_signal_handler(signal.SIGHUP, self._refresh)

    def _on_signal(self, number: signal.Signals) -> None:
        loop = asyncio.get_running_loop()
        if not self._ending.done():
            self._ending.set_result(number)
        elif number == signal.SIGINT:
            self._hurry.set()
            for replica in self._replicas():
                replica.kill()
        if number == signal.SIGTERM:
            loop.remove_signal_handler(number)  # a second SIGTERM kills the supervisor

    def _refresh(self) -> None:
        for replica in self._replicas():
            replica.tell({"what": "refresh"})

    @property
    def _is_drained(self) -> bool:
        return self._ending.exception() is None and self._ending.result() == signal.SIGTERM

    async def _leave(self) -> None:
        """Makes all processes report not ready, and waits until load balancers have noticed."""
        for replica in self._list_accepting():
            replica.tell({"what": "leave"})
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._hurry.wait(), self._drain_delay)

    async def _end(self) -> None:
        until = asyncio.get_running_loop().time() + _LAST_SECONDS
        if self._is_drained:
            await self._finish(until + self._drain_timeout)
        else:
            for replica in self._replicas():
                replica.end()
            await self._wait(self._keeping, until)

    async def _finish(self, until: float) -> None:
        """Lets all processes finish their requests.

        Processes with models stop after the workers.
        """
        asked = [one for one in self._replicas() if one.role.is_asked]
        for replica in self._list_accepting():
            replica.finish()
        if asked:
            others = [
                task
                for task, slot in zip(self._keeping, self._slots, strict=True)
                if slot.replica not in asked
            ]
            await self._wait(others, until - _LAST_OF_MODELS)
            for replica in asked:
                replica.finish()
        await self._wait(self._keeping, until)

    async def _wait(self, keeping: "list[asyncio.Task[None]]", until: float) -> None:
        """Waits until processes have ended, and kills late processes."""
        seconds = max(0.0, until - asyncio.get_running_loop().time())
        late = keeping and (await asyncio.wait(keeping, timeout=seconds))[1]
        if late:
            for task, slot in zip(self._keeping, self._slots, strict=True):
                if task in late and slot.replica is not None:
                    logger.error("%s does not end, and is killed", slot.name)
                    slot.replica.kill()
            await asyncio.wait(late)
