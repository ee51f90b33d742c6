"""Who keeps several processes that serve together behind one port. It runs no model itself."""

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

# One that has lived so long has served: what ended it does not end each at once. An isolated model
# may wait longer for its process: nobody else needs it, and each start takes from all others.
_WELL = 10.0
_WELL_ALONE = 60.0
# Beyond the time in which requests are answered: flows stop, the interpreter ends. What has not
# ended then is killed.
_LAST_SECONDS = 2.0
# Of which so many are left to the process of the models, whatever the workers do.
_LAST_OF_MODELS = 0.5


class StartError(Exception):
    """A replica could not begin, so nothing is served.

    Attributes:
        code: The exit code that it has, or would have.
    """

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Supervisor:
    """Starts processes, hands connections to them, and replaces those that end.

    It owns the addresses, every process, and the signals of this one while it runs.
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
        """Takes what to run.

        Args:
            start: What each process is told first.
            role: What those are there for that take connections. `Role.WORKER`: there is one
                process more, which has the models.
            count: How many of them there are to be.
            http: A socket with the address for HTTP, which becomes its own.
            grpc: Likewise for gRPC; None: no gRPC.
            drain_timeout: Seconds within which SIGTERM lets requests under way be answered.
            drain_delay: Seconds before that in which they are not ready, and go on answering.
            tls: Certificate and key, for what it answers itself while no process lives.
            isolated: The models that have a process of their own each.
        """
        self._isolated = dict(enumerate(isolated, 1))
        self._start = {
            **start,
            "address": http.getsockname()[:2],
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
        whole = 1 if role is Role.WORKER else count  # how many have all models
        asked = None if role is Role.WORKER else whole
        names = [slot.name for slot in self._slots]
        self._coordinator = Coordinator(self._with_models, asked, self._isolated, names)
        self._environment = with_share(os.environ, whole)
        self._deaths = DeathCounts()
        self._watching: set[asyncio.Task[None]] = set()
        self._has_begun = False

    def run(self, said: Callable[[Message], object], leaving: Callable[[], object]) -> int:
        """Serves until a signal ends it; in the main thread.

        Args:
            said: Called once when all replicas serve, with what the first has told, on the event
                loop.
            leaving: Called once when it begins to end.

        Returns:
            The signal's number.

        Raises:
            OSError: somebody else listens there.
            StartError: one of the first replicas could not begin.
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
        # What is the same in all is told by the first alone.
        quiet = not self._has_begun and replica.number > 1

        def first() -> Message:
            return {
                **self._start,
                "changes": self._coordinator.changes,
                "condemned": [[*version, why] for version, why in self._deaths.condemned.items()],
                "suspects": self._deaths.suspects,
                "is_quiet": quiet,
            }

        await replica.start(first, self._grpc, self._look)
        watching = asyncio.create_task(replica.watch())
        self._watching.add(watching)
        watching.add_done_callback(self._watching.discard)
        try:
            self._link(replica)
        except OSError as error:  # there are too many descriptors, or no memory
            replica.failure = {"text": f"it cannot be linked: {error}", "code": 1}
            replica.kill()

    def _link(self, replica: ChildServer) -> None:
        """Links who is asked with those that ask, whichever of the two is new."""
        for other in self._replicas():
            if replica.role.is_asked != other.role.is_asked:
                asked = replica if replica.role.is_asked else other
                peer = asked.number if asked.role is Role.ISOLATED else 0
                for one, ends in zip((replica, other), new_link(), strict=True):
                    one.link(ends, peer)

    def _look(self) -> None:
        """Begins to take connections when all replicas can; isolated models may come later."""
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
        """Says what did not load in one of those that were quiet, and did in the first."""
        known = self._own(replicas[0].loaded["unready"])
        for replica in replicas[1:]:
            text = self._own(replica.loaded["unready"])
            if text not in ("", known):
                logger.error("%s: %s", replica.name, text)

    def _own(self, unready: str) -> str:
        """Returns what a process says that it lacks, without isolated models: they may be late."""
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
                assert code is not None  # else there is a failure
                text = f"{replica.name} {describe_exit(code)} before it served"
                error = StartError(text, code if code > 0 else 1)
            self._ending.set_exception(error)
        return False

    def _judge(self, replica: ChildServer, code: int) -> bool:
        """Finds out which version has ended a process, if any; returns False: none is suspected."""
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
        """Ends it all where a place could not be kept."""
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
            loop.remove_signal_handler(number)  # the second ends it

    def _refresh(self) -> None:
        for replica in self._replicas():
            replica.tell({"what": "refresh"})

    @property
    def _is_drained(self) -> bool:
        return self._ending.exception() is None and self._ending.result() == signal.SIGTERM

    async def _leave(self) -> None:
        """Has all say that they are not ready, and waits until those who ask have seen it."""
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
        """Has all answer what they have taken on: who is asked by others is told last."""
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
        """Waits until processes have ended, and kills those that do not in time."""
        seconds = max(0.0, until - asyncio.get_running_loop().time())
        late = keeping and (await asyncio.wait(keeping, timeout=seconds))[1]
        if late:
            for task, slot in zip(self._keeping, self._slots, strict=True):
                if task in late and slot.replica is not None:
                    logger.error("%s does not end, and is killed", slot.name)
                    slot.replica.kill()
            await asyncio.wait(late)
