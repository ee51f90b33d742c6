"""The stages of a plan, wired: inboxes, outboxes, terminals, entrance. Nothing runs yet."""

from collections.abc import Callable

from modelflow.plan import ExecutionPlan, StagePlan, Target
from modelflow.runtime.admission import Admission
from modelflow.runtime.clock import Clock
from modelflow.runtime.entrance import Entrance, EntryPort
from modelflow.runtime.merge import BRANCH, ORDER, Merge
from modelflow.runtime.outbox import Receiver, Route
from modelflow.runtime.session import Session
from modelflow.runtime.stage import Stage
from modelflow.runtime.terminal import OutputTerminal, SinkTerminal

__all__ = ["Network"]


class Network:
    """Everything that a plan needs but threads.

    Attributes:
        plan: What it was made from.
        stages: By node, in topological order.
        entrance: Where sessions put their data in.
    """

    def __init__(self, plan: ExecutionPlan, results_bound: int, clock: Clock) -> None:
        self.plan = plan
        self._admission = None if plan.max_in_flight is None else Admission(plan.max_in_flight)
        entry_ports = _entry_ports(plan)
        self.stages = {
            name: Stage(stage, entry_ports.get(name, frozenset()), results_bound, clock)
            for name, stage in plan.stages.items()
        }
        self._terminals = {name: _terminal(plan, name) for name in _terminal_names(plan)}
        self._merges = {
            target: Merge(*self._inner(target), merge.edges, merge.bound, clock)
            for target, merge in plan.merges.items()
        }
        for stage in self.stages.values():
            self._connect(stage)
        ports = {name: self._entry_port(name, targets) for name, targets in plan.entries.items()}
        self.entrance = Entrance(ports, self._admission, results_bound, clock)

    def session(
        self,
        name: str,
        origin: str,
        on_finished: Callable[[Session], None],
        opener: Session | None = None,
    ) -> Session:
        """Makes a session whose data begins at ``origin`` (see `ExecutionPlan.origins`)."""
        ends = self.plan.origins[origin]
        admission = self._admission
        return Session(
            name,
            origin,
            ends,
            on_left=None if admission is None else admission.remove,
            on_finished=on_finished,
            opener=opener,
        )

    def discard(self, session: Session) -> None:
        """Drops what is queued for a cancelled session."""
        for stage in self.stages.values():
            stage.inbox.discard(session)
            stage.outbox.discard(session)
        for merge in self._merges.values():
            merge.discard(session)

    def close(self) -> None:
        """Wakes everyone who waits anywhere in it; what is queued is dropped."""
        if self._admission is not None:
            self._admission.close()
        for stage in self.stages.values():
            stage.close()
        for merge in self._merges.values():
            merge.close()

    def done(self) -> int:
        """Returns how many calls of units have been made: a figure that grows while things move."""
        return sum(stats.batches for stage in self.stages.values() for stats in stage.stats)

    def _inner(self, target: Target) -> tuple[Receiver, int]:
        """What lies behind an input: the node's inbox, or a terminal."""
        stage = self.stages.get(target.node)
        receiver = self._terminals[target.node] if stage is None else stage.inbox
        return receiver, target.port

    def _outer(self, target: Target) -> tuple[Receiver, int]:
        """What an edge to an input feeds: where branches meet, that comes first."""
        merge = self._merges.get(target)
        return self._inner(target) if merge is None else (merge, BRANCH)

    def _connect(self, stage: Stage) -> None:
        plan = stage.plan
        routes: list[Route] = [tuple(map(self._outer, route)) for route in plan.routes]
        if plan.is_terminal:
            routes[:1] = [((self._terminals[plan.node], 0),)]
        marks = [(ports, ((self._merges[target], ORDER),)) for ports, target in plan.marks]
        stage.connect(routes, marks, {} if self._admission is None else self._exits(plan))

    def _exits(self, plan: StagePlan) -> dict[str, int]:
        if plan.is_terminal:
            return {}  # its terminal counts
        return _places(self.plan, plan.node)

    def _entry_port(self, name: str, targets: tuple[Target, ...]) -> EntryPort:
        stages = [self.stages[target.node] for target in targets if target.node in self.stages]
        return EntryPort(
            name,
            tuple(map(self._outer, targets)),
            any(stage.plan.is_rejecting for stage in stages),
            lambda: max((stage.expected_wait() or 0.0 for stage in stages), default=0.0) or None,
        )


def _entry_ports(plan: ExecutionPlan) -> dict[str, frozenset[int]]:
    found: dict[str, set[int]] = {}
    for targets in plan.entries.values():
        for target in targets:
            found.setdefault(target.node, set()).add(target.port)
    return {name: frozenset(ports) for name, ports in found.items()}


def _terminal_names(plan: ExecutionPlan) -> list[str]:
    return [*plan.outputs, *(name for name, stage in plan.stages.items() if stage.is_terminal)]


def _terminal(plan: ExecutionPlan, name: str) -> OutputTerminal | SinkTerminal:
    exits = _places(plan, name)
    return OutputTerminal(name, exits) if name in plan.outputs else SinkTerminal(exits)


def _places(plan: ExecutionPlan, name: str) -> dict[str, int]:
    """Returns, by origin, the place of a node among the exits."""
    return {
        origin: ends.exits.index(name)
        for origin, ends in plan.origins.items()
        if name in ends.exits
    }
