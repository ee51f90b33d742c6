"""The connected stages of a plan: inboxes, outboxes, sinks and the submitter, without threads.

Example: ``input -> decode -> resize -> output``. The submitter feeds the inbox of "decode". The
outbox of "decode" feeds the inbox of "resize". The outbox of "resize" feeds the terminal of
"output".
"""

from collections.abc import Callable

from modelflow.errors import FlowUnitError
from modelflow.plan import ExecutionPlan, StagePlan, Target, UnitPlan
from modelflow.runtime.entry.request_group import EntryPort
from modelflow.runtime.entry.sinks import OutputTerminal, SinkTerminal, add_probe
from modelflow.runtime.entry.submitter import Submitter
from modelflow.runtime.flow_state import SchedulerOptions
from modelflow.runtime.kinds import running_kind
from modelflow.runtime.session.in_flight import InFlight
from modelflow.runtime.session.request_batch import RequestBatch
from modelflow.runtime.session.session import Session
from modelflow.runtime.stages.instances import UnitInstances
from modelflow.runtime.stages.merge import BRANCH, ORDER, Merge
from modelflow.runtime.stages.outbox import Receiver, Route
from modelflow.runtime.stages.stage import Stage
from modelflow.runtime.stats import NodeStats
from modelflow.wire.tensor import TensorSpec


class Wiring:
    """All objects that a plan needs to run, except threads."""

    plan: ExecutionPlan
    """The plan of the flow."""
    stages: dict[str, Stage]
    """The stages by the name of their first node, in topological order."""
    instances: dict[str, UnitInstances]
    """The instances of the units, by node."""
    submitter: Submitter
    """The submitter, through which the data of sessions enters."""

    def __init__(self, plan: ExecutionPlan, options: SchedulerOptions) -> None:
        results_bound, clock = options.results_bound, options.clock
        self.plan = plan
        self._on_error = options.on_error
        self._tap = options.tap
        most = plan.max_in_flight
        self._in_flight = None if most is None else InFlight(most, clock)
        entry_ports = _entry_ports(plan)
        self.stages = {
            name: Stage(
                stage,
                running_kind(stage.units),
                entry_ports.get(name, frozenset()),
                results_bound,
                clock,
            )
            for name, stage in plan.stages.items()
        }
        self.instances = {
            instances.plan.node: instances
            for stage in self.stages.values()
            for instances in stage.instances
        }
        self._terminals = {name: _terminal(plan, name) for name in _terminal_names(plan)}
        self._merges = {
            target: Merge(target.node, self._inner(target), merge.edges, merge.bound, clock)
            for target, merge in plan.merges.items()
        }
        for stage in self.stages.values():
            self._connect(stage)
        ports = {name: self._entry_port(name, targets) for name, targets in plan.entries.items()}
        self.submitter = Submitter(ports, self._in_flight, results_bound, clock, self.cancel)

    def session(
        self,
        name: str,
        origin: str,
        on_finished: Callable[[Session], None],
        opener: Session | None = None,
        request_batch: RequestBatch | None = None,
    ) -> Session:
        """Makes a session whose data begins at ``origin`` (see `ExecutionPlan.origins`)."""
        session = Session(
            name,
            origin,
            self.plan.origins[origin],
            in_flight=self._in_flight,
            on_finished=on_finished,
            opener=opener,
            request_batch=request_batch,
        )
        session.on_error = self._on_error
        return session

    def cancel(self, session: Session) -> None:
        """Cancels a session, drops its queued data, and wakes threads that wait to send."""
        if not session.cancel():
            return
        for stage in self.stages.values():
            # before the inbox, because the outbox may pause the session in the inbox
            stage.outbox.discard(session)
            stage.inbox.discard(session)
        for merge in self._merges.values():
            merge.discard(session)
        if self._in_flight is not None:
            self._in_flight.wake()

    def reload(self, node: str | None) -> None:
        """Reloads the shared units of a node, or of every node that supports this for None.

        Raises:
            FlowUnitError: The node has nothing to reload, or its unit failed to reload.
        """
        for instances in self.instances.values() if node is None else [self.instances[node]]:
            try:
                instances.reload()
            except NotImplementedError as error:
                if node is not None:
                    raise _reload_error(instances.plan, error) from error
            except Exception as error:
                raise _reload_error(instances.plan, error) from error

    def refresh(self, changed: Stage) -> None:
        """Updates the outboxes before a stage after a change of the stage's inbox."""
        for stage in self.stages.values():
            stage.outbox.refresh()
        changed.inbox.call_due()

    def admission(self) -> dict[str, float]:
        """Returns ``bound`` and ``full``, as in `FlowStats.admission`; empty without a limit."""
        limit = self._in_flight
        return {} if limit is None else {"bound": limit.bound, "full": limit.full_seconds()}

    def set_bounds(self, max_in_flight: int | None) -> None:
        """Sets the limit on rows in flight, if the graph has such a limit."""
        if self._in_flight is not None and max_in_flight is not None:
            self._in_flight.go_by(max_in_flight)

    def drain(self) -> None:
        """Ends all delays, and releases delayed data immediately."""
        for stage in self.stages.values():
            stage.inbox.drain()

    def end_cycles(self) -> None:
        """Ends events that cause further events, and rows in loops."""
        for stage in self.stages.values():
            stage.inbox.end_cycles()

    def close(self) -> None:
        """Wakes all waiting threads of the flow, and drops all queued data."""
        if self._in_flight is not None:
            self._in_flight.close()
        for stage in self.stages.values():
            stage.close()
        for merge in self._merges.values():
            merge.close()

    def count_calls(self) -> int:
        """Returns the number of finished calls of units, as a measure of progress."""
        return sum(stage.figures.count_calls() for stage in self.stages.values())

    def statistics(self) -> dict[str, NodeStats]:
        """Returns the current statistics of every node."""
        stages = self.stages.values()
        return {stats.node: stats for stage in stages for stats in stage.figures.nodes()}

    def tensor(self, node: str, port: str) -> TensorSpec | None:
        """Returns the tensor specification of an item at ``port`` from the open unit, or None."""
        instances = self.instances.get(node)
        return None if instances is None else instances.tensor(port)

    def count_held(self) -> dict[str, int]:
        """Returns the number of stored session objects by place; empty if no session is open."""
        places = {
            **{
                f"inbox of {name!r}": stage.inbox.count_held()
                for name, stage in self.stages.items()
            },
            **{
                f"outbox of {name!r}": stage.outbox.count_held()
                for name, stage in self.stages.items()
            },
            **{
                f"merge before {to.node!r}": merge.count_held()
                for to, merge in self._merges.items()
            },
        }
        return {place: count for place, count in places.items() if count}

    def _inner(self, target: Target) -> tuple[Receiver, int]:
        """Returns the inbox of a node or the terminal of an output, with the port."""
        stage = self.stages.get(target.node)
        receiver = self._terminals[target.node] if stage is None else stage.inbox
        return receiver, target.port

    def _outer(self, target: Target) -> tuple[Receiver, int]:
        """Returns the receiver of an edge to an input: a merge of branches, or the inbox."""
        merge = self._merges.get(target)
        return self._inner(target) if merge is None else (merge, BRANCH)

    def _connect(self, stage: Stage) -> None:
        plan = stage.plan
        last = plan.units[-1]
        names = last.spec.output_names
        routes: list[Route] = [
            add_probe(self._tap, last.node, name, tuple(map(self._outer, route)))
            for name, route in zip(names, plan.routes, strict=True)
        ]
        if plan.is_terminal:
            routes[:1] = [((self._terminals[plan.nodes[-1]], 0),)]
        marks = [(ports, ((self._merges[target], ORDER),)) for ports, target in plan.marks]
        stage.connect(routes, marks, {} if self._in_flight is None else self._exits(plan))

    def _exits(self, plan: StagePlan) -> dict[str, int]:
        if plan.is_terminal and not _is_counting(plan):
            return {}  # the terminal counts the rows
        return _places(self.plan, plan.nodes[-1])

    def _entry_port(self, name: str, targets: tuple[Target, ...]) -> EntryPort:
        stages = [self.stages[target.node] for target in targets if target.node in self.stages]
        return EntryPort(
            name,
            add_probe(self._tap, name, name, tuple(map(self._outer, targets))),
            any(stage.plan.unit.settings.queue_policy == "reject" for stage in stages),
            lambda: (
                max((stage.figures.estimate_wait() or 0.0 for stage in stages), default=0.0) or None
            ),
        )


def _reload_error(plan: UnitPlan, error: Exception) -> FlowUnitError:
    return FlowUnitError.from_exception(error, node=plan.node, unit=plan.spec.name, phase="reload")


def _entry_ports(plan: ExecutionPlan) -> dict[str, frozenset[int]]:
    found: dict[str, set[int]] = {}
    for targets in plan.entries.values():
        for target in targets:
            found.setdefault(target.node, set()).add(target.port)
    return {name: frozenset(ports) for name, ports in found.items()}


def _terminal_names(plan: ExecutionPlan) -> list[str]:
    return [
        *plan.outputs,
        *(stage.nodes[-1] for stage in plan.stages.values() if stage.is_terminal),
    ]


def _terminal(plan: ExecutionPlan, name: str) -> OutputTerminal | SinkTerminal:
    exits = _places(plan, name)
    if name in plan.outputs:
        return OutputTerminal(name, exits)
    return SinkTerminal(name, {} if _is_counting(plan.nodes[name]) else exits)


def _is_counting(plan: StagePlan) -> bool:
    """Returns whether a node counts rows out itself, for units that may change their number."""
    return plan.unit.spec.kind.may_change_count


def _places(plan: ExecutionPlan, name: str) -> dict[str, int]:
    """Returns, by origin, the index of a node among the nodes that count rows out."""
    return {
        origin: ends.counted_at.index(name)
        for origin, ends in plan.origins.items()
        if name in ends.counted_at
    }
