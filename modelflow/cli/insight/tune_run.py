"""The steps of ``modelflow tune``: variants that need a restart, then trials on one flow."""

import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from modelflow.cli.options.graph_choice import GraphChoice
from modelflow.cli.terminal.messages import tell
from modelflow.errors import ConfigError, Location, TuningError

if TYPE_CHECKING:
    from modelflow.insight.tune.restart_trials import VariantsReport
    from modelflow.insight.tune.search import Goal
    from modelflow.insight.tune.tuning import TuneReport


_SETTLING = 0.5
# Attributes that are tuned without a restart.
_TUNED = ("threads", "batch_size", "batch_timeout_ms", "queue_size")


def values_of(texts: Sequence[str], graph: GraphChoice) -> dict[str, list[str]]:
    """Parses ``--vary NODE.KEY=VALUE``: returns the checked values of each attribute.

    Raises:
        click.UsageError: A text has another form, or there are too many combinations.
        ConfigError, GraphError: The graph cannot have such an attribute, or such a value.
    """
    from modelflow.insight.tune.restart_trials import MOST_VARIANTS

    found: dict[str, list[str]] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        node, dot, key = name.rpartition(".")
        if not (equals and dot and node and key):
            raise click.UsageError(
                f"--vary {text}: expected NODE.KEY=VALUE, as in infer.intra_op_threads=1"
            )
        if key in _TUNED:
            raise click.UsageError(f"--vary {text}: {key} is tuned anyway; --fix keeps it as it is")
        try:
            graph.read({name: value})
        except ConfigError as error:
            place = Location(f"--vary {text}")
            findings = [replace(finding, location=place) for finding in error.findings]
            raise ConfigError(findings or str(error)) from error
        found.setdefault(name, []).append(value)
    count = math.prod(len(values) + 1 for values in found.values())
    if count > MOST_VARIANTS:
        raise click.UsageError(
            f"--vary: these are {count} combinations, with the present values; expected at most "
            f"{MOST_VARIANTS}, since each starts the graph"
        )
    return found


@dataclass
class TuneRun:
    """One call of the command.

    Attributes:
        graph: The graph.
        inputs: The inputs to send, as ``--input`` names them.
        rows: The same inputs as rows of buffers.
        goal: The goal of the tuning.
        clients: The number of clients that wait for replies, if the goal has no rate.
        seconds: The length of each trial.
        fixed: The settings to keep.
    """

    graph: GraphChoice
    inputs: tuple[str, ...]
    rows: Sequence[Mapping[str, Any]]
    goal: "Goal"
    clients: int
    seconds: float
    fixed: frozenset[str]
    _stop: Callable[[], object] | None = None
    _is_over: bool = False

    def stop(self) -> None:
        """Ends `run` at once, from another thread."""
        self._is_over = True
        if self._stop is not None:
            self._stop()

    def _find_stop(self, stop: Callable[[], object]) -> None:
        self._stop = stop
        if self._is_over:  # `stop` was called before `_stop` was set, and could not call it
            stop()

    def run(self, values: Mapping[str, Sequence[str]]) -> "tuple[TuneReport, dict[str, Any]]":
        """Returns the report of the tuning, and all changes of the graph.

        Args:
            values: ``node.attribute`` -> the values to try that need a restart.

        Raises:
            TuningError, StoppedError: Requests fail, or `stop` was called.
            GraphError, FlowFailed: The graph cannot start.
        """
        from modelflow.flow import Flow
        from modelflow.insight.tune.restart_trials import try_variants
        from modelflow.insight.tune.tuning import Tuning

        told = partial(click.echo, err=True)
        changes: Mapping[str, Any] = {}
        if values:
            told("trying variants, each with a restart")
            found = try_variants(self._measure, values, self.goal, told)
            _tell(found)
            changes = found.changes
        flow = Flow(self.graph.read(changes))
        tuning = Tuning(flow, self.rows, self.goal, self.clients, self.seconds, self.fixed, told)
        self._find_stop(tuning.stop)
        with flow:
            report = tuning.run()
        return report, {**changes, **report.changes}

    def _measure(self, changes: Mapping[str, Any]) -> tuple[float, float]:
        """Runs the load in its own process, because an engine's threads belong to a process."""
        with tempfile.TemporaryDirectory(prefix="modelflow-") as folder:
            file = Path(folder) / "load.json"
            command = [sys.executable, "-m", "modelflow", "load", self.graph.source]
            for option, pairs in (
                ("--set", {**self.graph.overrides, **changes}),
                ("--arg", self.graph.args),
            ):
                command += [f"{option}={name}={value}" for name, value in pairs.items()]
            command += [f"--input={text}" for text in self.inputs]
            rate = self.goal.rate
            command += [f"--clients={self.clients}" if rate is None else f"--rate={rate}"]
            command += [f"--seconds={self.seconds}", f"--warm-up={_SETTLING}", f"--json={file}"]
            with subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
            ) as process:
                self._find_stop(process.terminate)
                try:
                    _, errors = process.communicate()
                except BaseException:  # Ctrl-C, which the child process may not have received
                    process.terminate()
                    raise
            if self._is_over:
                raise StoppedError("the tuning was stopped")
            if process.returncode or not file.exists():
                raise TuningError(_reason(errors.decode(errors="replace"), process.returncode))
            (load,) = json.loads(file.read_bytes())["loads"]
        return load["rate"], _percentile(load["latency"], self.goal.percent)


class StoppedError(Exception):
    """Raised after `TuneRun.stop`; no trial has failed."""


def _reason(errors: str, code: int) -> str:
    """Returns the last line that a process wrote to stderr, or its exit code."""
    lines = [line for line in errors.splitlines() if line.strip()]
    return lines[-1].removeprefix("error: ") if lines else f"it ended with {code}"


def _percentile(latency: Mapping[str, Any], percent: float) -> float:
    """Returns the smallest reported percentile that is at least the requested percentile."""
    known = sorted((float(name[1:]), name) for name in latency if name[0] == "p")
    name = next((name for share, name in known if share >= percent), "max")
    return float(latency[name] or 0.0)


def _tell(report: "VariantsReport") -> None:
    """Prints the best variant, and the variants that failed."""
    for reason in report.failed:
        tell("note", reason)
    if not report.changes:
        click.echo("No variant was found that is better than the present graph.")
        return
    named = ", ".join(f"{name}={value}" for name, value in report.changes.items())
    click.echo(f"The best variant is {report.gain:+.0%}: {named}. The next trials use it.")
