"""A running flow under load, with settings that change between measurements."""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from modelflow.errors import TuningError
from modelflow.insight.doctor.case import Case
from modelflow.insight.load.flow_target import FlowTarget
from modelflow.insight.load.load import Load
from modelflow.insight.load.options import LoadOptions
from modelflow.insight.load.report import LoadReport
from modelflow.insight.tune.settings import Settings
from modelflow.profile.snapshot import Snapshot
from modelflow.runtime.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from modelflow.flow import Flow


_SETTLING = 0.2


class LoadedFlow:
    """A running flow without other users, its load, and the time that is left for a tuning."""

    def __init__(self, flow: "Flow", rows: Sequence[Mapping[str, Any]], limit: float) -> None:
        """Stores the flow and its settings; sends nothing.

        Args:
            flow: A running flow.
            rows: The rows to send, in a cycle.
            limit: Seconds for the whole tuning, from now.
        """
        self.flow, self.rows = flow, rows
        self.settings = Settings.of(flow.scheduler.plan)
        self._until = SYSTEM_CLOCK.now() + limit
        self._load: Load | None = None
        self._is_over = threading.Event()

    @property
    def seconds_left(self) -> float:
        """The seconds that are left for the tuning; below 0 after the limit."""
        return self._until - SYSTEM_CLOCK.now()

    def stop(self) -> None:
        """Ends the present and all later measurements; callable from another thread."""
        self._is_over.set()
        if self._load is not None:
            self._load.stop()

    def observe(
        self, settings: Settings, seconds: float, *, clients: int | None, rate: float | None = None
    ) -> tuple[Case, LoadReport]:
        """Loads the flow with some settings, and compares snapshots from the start and end.

        Args:
            settings: The settings to change to.
            seconds: The duration of the load, after a warm-up.
            clients: The number of clients that wait for replies; None for a rate.
            rate: Requests a second that arrive, if there are no clients.

        Raises:
            FlowFailed, StreamClosed: The flow ended.
            TuningError: `stop` was called.
        """
        self.check()
        self.go_to(settings)
        seen: list[Snapshot] = []
        options = LoadOptions(rate=rate, clients=clients, seconds=seconds, warm_up=_SETTLING)
        report = self.send(options, lambda: seen.append(Snapshot.of_flow(self.flow)))
        return Case.between(*seen, is_driven=True), report

    def send(self, options: LoadOptions, marked: Callable[[], None] | None = None) -> LoadReport:
        """Loads the flow with its present settings.

        Args:
            options: The load.
            marked: See `Load`.

        Raises:
            FlowFailed, StreamClosed: The flow ended.
            TuningError: `stop` was called.
        """
        self._load = Load(FlowTarget(self.flow, self.rows), options, marked=marked)
        self.check()  # after `_load` is set: a later `stop` stops the load, an earlier one is seen
        report = self._load.run()
        self.check()
        return report

    def check(self) -> None:
        """Does nothing until `stop`.

        Raises:
            TuningError: `stop` was called.
        """
        if self._is_over.is_set():
            raise TuningError("the tuning was stopped")

    def go_to(self, settings: Settings) -> None:
        """Changes the settings of the flow."""
        changes = self.settings.changes_to(settings)
        if changes:
            self.flow.reconfigure(changes)
        self.settings = settings
