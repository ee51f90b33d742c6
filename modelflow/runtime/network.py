"""The stages of a plan, wired: inboxes, outboxes, terminals, entrance. Nothing runs yet."""

from collections.abc import Callable

from modelflow.plan import ExecutionPlan, StagePlan, Target
from modelflow.runtime.admission import Admission
from modelflow.runtime.clock import Clock
from modelflow.runtime.entrance import Entrance, EntryPort
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
            name: Stage(stage, entry_ports.get(name, frozenset()), clock)
            for name, stage in plan.stages.items()
        }
        self._terminals = {name: _terminal(plan, name) for name in _terminal_names(plan)}
        for stage in self.stages.values():
            stage.connect(self._routes(stage.plan))
        ports = {name: self._entry_port(name, targets) for name, targets in plan.entries.items()}
        self.entrance = Entrance(ports, self._admission, results_bound, clock)

    def session(self, name: str, origin: str, on_finished: Callable[[Session], None]) -> Session:
        """Makes a session whose data begins at ``origin`` (see `ExecutionPlan.origins`)."""
        ends = self.plan.origins[origin]
        admission = self._admission
        return Session(
            name,
            origin,
            ends.outputs,
            len(ends.terminals),
            on_passed=None if admission is None else admission.remove,
            on_finished=on_finished,
        )

    def discard(self, session: Session) -> None:
        """Drops what is queued for a cancelled session."""
        for stage in self.stages.values():
            stage.inbox.discard(lambda stream: stream.session is session)
            stage.outbox.discard(lambda stream: stream.session is session)

    def close(self) -> None:
        """Wakes everyone who waits anywhere in it; what is queued is dropped."""
        if self._admission is not None:
            self._admission.close()
        for stage in self.stages.values():
            stage.close()

    def done(self) -> int:
        """Returns how many calls of units have been made: a figure that grows while things move."""
        return sum(stats.batches for stage in self.stages.values() for stats in stage.stats)

    def _receiver(self, target: Target) -> Receiver:
        stage = self.stages.get(target.node)
        return self._terminals[target.node] if stage is None else stage.inbox

    def _routes(self, plan: StagePlan) -> tuple[Route, ...]:
        if plan.is_terminal:
            last: Route = ((self._terminals[plan.node], 0),)
            return (last, *(() for _ in plan.routes[1:]))
        return tuple(
            tuple((self._receiver(target), target.port) for target in route)
            for route in plan.routes
        )

    def _entry_port(self, name: str, targets: tuple[Target, ...]) -> EntryPort:
        stages = [self.stages[target.node] for target in targets if target.node in self.stages]
        return EntryPort(
            name,
            tuple((self._receiver(target), target.port) for target in targets),
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
    places = {
        origin: ends.terminals.index(name)
        for origin, ends in plan.origins.items()
        if name in ends.terminals
    }
    return OutputTerminal(name, places) if name in plan.outputs else SinkTerminal(places)
