"""Requests to all replicas together: for their counts, and to load and unload models."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from modelflow.serve.metrics.snapshot import ModelSnapshot, add_snapshots
from modelflow.serve.processes.control_channel import Message
from modelflow.serve.processes.role import Role
from modelflow.serve.processes.supervisor.child import ChildServer, ReplicaGone

# Seconds to wait for the counts of a replica.
_SECONDS = 2.0
_GONE: Message = {"text": "it has ended, and another takes its place", "code": "UNAVAILABLE"}


class Coordinator:
    """A coordinator that sends a client's request to every replica. For the supervisor's thread.

    It stores the changes of clients, for replicas that start later. It also stores the last counts
    of each replica. Counts of a replica that has ended or does not answer still count, because
    monitoring would read a falling counter as a restart.
    """

    def __init__(
        self,
        replicas: Callable[[], Iterable[ChildServer]],
        fronts: Callable[[], Iterable[ChildServer]],
        count: int | None,
        isolated: Mapping[int, str],
        names: Iterable[str],
    ) -> None:
        """Stores the group of processes.

        Args:
            replicas: Returns the running processes with models.
            fronts: Returns the running processes that take requests of clients.
            count: The configured number of replicas. None for a single process with the models.
            isolated: The models that have their own processes, by process number.
            names: The names of all processes.
        """
        self._replicas, self._fronts = replicas, fronts
        self._regions: dict[str, Message] = {}  # the shared memory that clients have registered
        self._isolated = {name: number for number, name in isolated.items()}
        self._count = count
        # The changes of clients by model, or by None for the configuration. The last change counts.
        # Earlier changes are kept while the last may still fail.
        self._asked: dict[str | None, list[Message]] = {}
        self._last: dict[ChildServer, Sequence[ModelSnapshot]] = {}
        self._departed: Sequence[ModelSnapshot] = ()
        self._deaths = Counter(dict.fromkeys(names, 0))  # counters start at 0

    @property
    def changes(self) -> Message:
        """The changes that a newly started replica must know."""
        last = {name: asked[-1] for name, asked in self._asked.items()}
        configured = last.pop(None)["config"] if None in last else None
        unloaded = sorted(name or "" for name, one in last.items() if one["what"] == "unload")
        tunings = {name: one["tuning"] for name, one in last.items() if one.get("tuning")}
        return {
            "configured": configured,
            "unloaded": unloaded,
            "tunings": tunings,
            "regions": [*self._regions.values()],
        }

    async def answer(self, _: ChildServer, message: Message) -> Message:
        """Answers a request of a replica."""
        if message["what"] == "snapshots":
            return await self._gather_snapshots()
        if message["what"] == "share":
            return {"problem": await self._share(message)}
        return {"problem": await self._change(message)}

    def on_exit(self, replica: ChildServer) -> None:
        """Keeps the counts of an ended replica, and counts its end."""
        self._deaths[replica.name] += 1
        counted = [snapshot.past() for snapshot in self._last.pop(replica, ())]
        self._departed = add_snapshots([*self._departed, *counted])

    # -- counts ---------------------------------------------------------------------------------

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

    async def _share(self, message: Message) -> Message | None:
        """Registers or removes shared memory in all processes that take requests."""
        fronts = [*self._fronts()]
        problems = await asyncio.gather(*(_problem(one, message) for one in fronts))
        change = message["change"]
        if not all(problems) and "register" in change:
            self._regions[change["register"]["name"]] = change["register"]
        elif "unregister" in change:
            name = change["unregister"]
            self._regions = {
                one: region for one, region in self._regions.items() if name not in ("", one)
            }
        return _one(list(zip(fronts, problems, strict=True)))

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
        """Removes a change that has failed, or the earlier changes after a success."""
        asked = self._asked.get(name, [])
        place = next((place for place, one in enumerate(asked) if one is message), None)
        if place is None:
            return  # a later change has succeeded already
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
    """Returns the problem for the client. Names the processes, unless all have the same problem."""
    failed = [(replica, problem) for replica, problem in found if problem is not None]
    if not failed:
        return None
    first = failed[0][1]
    if len(failed) == len(found) and all(problem == first for _, problem in failed):
        return first
    texts = [f"{replica.name}: {problem['text']}" for replica, problem in failed]
    return {**first, "text": "; ".join(texts)}
