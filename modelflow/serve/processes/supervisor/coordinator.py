"""What all replicas are asked together: their figures, and to load and unload models."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from modelflow.serve.metrics.snapshot import ModelSnapshot, add_snapshots
from modelflow.serve.processes.control_channel import Message
from modelflow.serve.processes.role import Role
from modelflow.serve.processes.supervisor.child import ChildServer, ReplicaGone

# How long the figures of a replica are waited for.
_SECONDS = 2.0
_GONE: Message = {"text": "it has ended, and another takes its place", "code": "UNAVAILABLE"}


class Coordinator:
    """Asks every replica what one was asked by a client. For the supervisor's thread.

    What clients have changed is remembered, for replicas that come later. So are the last figures
    of each: those of a replica that has ended, or does not answer, still count, as counters that
    fall would be read as having begun anew.
    """

    def __init__(
        self,
        replicas: Callable[[], Iterable[ChildServer]],
        count: int | None,
        isolated: Mapping[int, str],
        names: Iterable[str],
    ) -> None:
        """Takes who there is.

        Args:
            replicas: Gives those that run.
            count: How many there are meant to be; None: one alone.
            isolated: The models that have a process of their own, by its number.
            names: What all processes are called, which may end.
        """
        self._replicas = replicas
        self._isolated = {name: number for number, name in isolated.items()}
        self._count = count
        # What clients have changed, by model (None: the configuration). The last of each counts;
        # those before it are kept as long as it may still fail.
        self._asked: dict[str | None, list[Message]] = {}
        self._last: dict[ChildServer, Sequence[ModelSnapshot]] = {}
        self._departed: Sequence[ModelSnapshot] = ()
        self._deaths = Counter(dict.fromkeys(names, 0))  # whose counters begin with 0

    @property
    def changes(self) -> Message:
        """What a replica has to know that comes now."""
        last = {name: asked[-1] for name, asked in self._asked.items()}
        configured = last.pop(None)["config"] if None in last else None
        unloaded = sorted(name or "" for name, one in last.items() if one["what"] == "unload")
        return {"configured": configured, "unloaded": unloaded}

    async def answer(self, _: ChildServer, message: Message) -> Message:
        """Answers what a replica asks."""
        if message["what"] == "snapshots":
            return await self._gather_snapshots()
        return {"problem": await self._change(message)}

    def on_exit(self, replica: ChildServer) -> None:
        """Keeps what a replica that has ended had counted, and counts its end."""
        self._deaths[replica.name] += 1
        counted = [snapshot.past() for snapshot in self._last.pop(replica, ())]
        self._departed = add_snapshots([*self._departed, *counted])

    # -- figures --------------------------------------------------------------------------------

    async def _gather_snapshots(self) -> Message:
        ready = [replica for replica in self._replicas() if replica.is_ready]
        up = 0
        for replica, answer in zip(
            ready, await asyncio.gather(*map(_ask_snapshots, ready)), strict=True
        ):
            if answer is not None:
                up += replica.role is not Role.ISOLATED
                self._last[replica] = [ModelSnapshot.read(one) for one in answer["snapshots"]]
            elif replica in self._last:
                self._last[replica] = [snapshot.past() for snapshot in self._last[replica]]
        found = [snapshot for snapshots in self._last.values() for snapshot in snapshots]
        there = {(snapshot.name, snapshot.version) for snapshot in found}
        found += [one for one in self._departed if (one.name, one.version) in there]
        snapshots = [snapshot.document() for snapshot in add_snapshots(found)]
        if self._count is None:
            return {"snapshots": snapshots, "up": None, "count": 1, "deaths": self._deaths}
        return {"snapshots": snapshots, "up": up, "count": self._count, "deaths": self._deaths}

    # -- changes --------------------------------------------------------------------------------

    async def _change(self, message: Message) -> Message | None:
        replicas = self._find_asked(message)
        if not replicas:
            return _GONE
        is_configured = message["what"] == "configure"
        names = [None, *message["names"]] if is_configured else [message["name"]]
        for name in names:
            self._asked.setdefault(name, []).append(message)
        problems = await asyncio.gather(*(_problem(replica, message) for replica in replicas))
        for name in names:
            self._settle(name, message, is_done=not all(problems))
        return _one(list(zip(replicas, problems, strict=True)))

    def _find_asked(self, message: Message) -> list[ChildServer]:
        """Returns the processes that a change concerns."""
        number = self._isolated.get(message.get("name", ""))
        return [
            one
            for one in self._replicas()
            if (one.number == number and one.role is Role.ISOLATED)
            or (number is None and one.role is not Role.ISOLATED)
        ]

    def _settle(self, name: str | None, message: Message, *, is_done: bool) -> None:
        """Forgets a change that has failed, or those before it if it is done."""
        asked = self._asked.get(name, [])
        place = next((place for place, one in enumerate(asked) if one is message), None)
        if place is None:
            return  # a later one is done already
        if is_done:
            del asked[:place]
        else:
            del asked[place]
        if not asked:
            del self._asked[name]


async def _ask_snapshots(replica: ChildServer) -> Message | None:
    try:
        return await asyncio.wait_for(replica.ask({"what": "snapshots"}), _SECONDS)
    except (TimeoutError, ReplicaGone):
        return None


async def _problem(replica: ChildServer, message: Message) -> Message | None:
    try:
        answer = await replica.ask(message)
    except ReplicaGone:
        return _GONE
    problem: Message | None = answer["problem"]
    return problem


def _one(found: Sequence[tuple[ChildServer, Message | None]]) -> Message | None:
    """What a client is told: once where all say the same, else of whom it is."""
    failed = [(replica, problem) for replica, problem in found if problem is not None]
    if not failed:
        return None
    first = failed[0][1]
    if len(failed) == len(found) and all(problem == first for _, problem in failed):
        return first
    texts = [f"{replica.name}: {problem['text']}" for replica, problem in failed]
    return {**first, "text": "; ".join(texts)}
