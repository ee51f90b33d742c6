"""Compares the tuner's settings with the best settings of three graphs with known costs.

python benchmarks/tuned.py [--only waits] [--seconds 1.5]

"waits": stages that sleep, one of which gains by batches. "interpreter": a stage that computes in
Python, where more threads bring nothing. "steps": a model whose calls cost the same for 1 to 4
rows, and for 5 to 8. The best settings come from a grid that is simulated with the true costs. The
three best of the grid are then measured. The tuner has 60 s, and tries at most six settings under
load.
"""

import argparse
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from machine import machine
from measure import print_table

import modelflow
from modelflow.insight.load.flow_target import FlowTarget
from modelflow.insight.load.load import run
from modelflow.insight.load.options import LoadOptions
from modelflow.insight.tune.cost import StageCost
from modelflow.insight.tune.search import Goal
from modelflow.insight.tune.settings import Settings
from modelflow.insight.tune.simulate import simulate
from modelflow.insight.tune.tuning import Tuning

GRAPH = """digraph known {{ fuse=off input [type=input] {nodes} output [type=output]
    input -> {chain} -> output }}"""
THREADS, BATCHES = (1, 2, 3, 4, 6, 8, 12, 16), (1, 2, 4, 8, 16, 32)
CLIENTS, BOUND = 32, 0.3
ROWS = [{"input": 1}]


@dataclass(frozen=True)
class Known:
    """A stage whose cost is known: ``seconds(rows)``, slept or computed."""

    name: str
    seconds: Callable[[int], float]
    is_computing: bool = False

    @property
    def unit(self) -> Any:
        """The stage's unit."""

        def work(values: list[Any]) -> list[Any]:
            seconds = self.seconds(len(values))
            if self.is_computing:
                end = time.thread_time() + seconds
                while time.thread_time() < end:
                    pass
            else:
                time.sleep(seconds)
            return values

        work.__name__ = self.name
        return modelflow.flowunit(work, batched=True)

    @property
    def cost(self) -> StageCost:
        """The same for the simulation."""
        table = {rows: self.seconds(rows) for rows in range(1, 65)}
        computing = 1.0 if self.is_computing else 0.0
        return StageCost(self.name, 1.0, table, computing, is_locked=self.is_computing)


GRAPHS = {
    "waits": (
        Known("decode", lambda n: 0.012 * n),
        Known("model", lambda n: 0.030 + 0.0025 * n),
        Known("post", lambda n: 0.003 * n),
    ),
    "interpreter": (
        Known("fetch", lambda n: 0.020 * n),
        Known("parse", lambda n: 0.004 * n, is_computing=True),
        Known("store", lambda n: 0.010 + 0.001 * n),
    ),
    "steps": (
        Known("read", lambda n: 0.008 * n),
        Known("model", lambda n: 0.025 * -(-n // 4)),
        Known("write", lambda n: 0.002 * n),
    ),
}


def grid(start: Settings, names: list[str]) -> list[Settings]:
    """Returns all settings of the grid, the stages' threads and batches multiplied out.

    Rows of a stage whose cost is linear gain nothing by batches: those have one size.
    """
    choices = []
    for name in names:
        stage = start.stages[name]
        batches = BATCHES if name in ("model", "store") else (1,)
        choices.append(
            [
                replace(stage.with_batch(size, stage.queue_size), threads=count)
                for size in batches
                for count in THREADS
            ]
        )
    return [Settings(dict(zip(names, found, strict=True))) for found in itertools.product(*choices)]


def best_of_grid(flow: Any, stages: tuple[Known, ...], seconds: float) -> float:
    """Returns the rate of the best settings: of three that the true costs make the best."""
    start, costs = Settings.of(flow.scheduler.plan), {stage.name: stage.cost for stage in stages}
    goal = Goal(99, BOUND)

    def score(settings: Settings, requests: int) -> tuple[float, float]:
        found = simulate(costs, settings, 2, clients=CLIENTS, requests=requests)
        return goal.score(found.rate, found.latency.percentile(99))

    found = sorted(
        grid(start, [stage.name for stage in stages]), key=lambda one: score(one, 150), reverse=True
    )
    found = sorted(found[:40], key=lambda one: score(one, 1500), reverse=True)
    rates = []
    for settings in found[:3]:
        flow.reconfigure(Settings.of(flow.scheduler.plan).changes_to(settings))
        for _ in range(2):
            report = run(
                FlowTarget(flow, ROWS), LoadOptions(clients=CLIENTS, seconds=seconds, warm_up=0.2)
            )
            if report.latency.percentile(99) <= BOUND:
                rates.append(report.rate)
    flow.reconfigure(Settings.of(flow.scheduler.plan).changes_to(start))
    return max(rates)


def main() -> None:
    """Tunes each graph and compares."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=GRAPHS)
    parser.add_argument("--seconds", type=float, default=1.5)
    asked = parser.parse_args()
    rows = []
    with machine() as ran_on:
        for name, stages in GRAPHS.items():
            if asked.only not in (None, name):
                continue
            nodes = " ".join(f"{s.name} [threads=1, batch_size=1]" for s in stages)
            text = GRAPH.format(nodes=nodes, chain=" -> ".join(s.name for s in stages))
            with modelflow.Flow(text, units=[stage.unit for stage in stages]) as flow:
                began = time.monotonic()
                report = Tuning(
                    flow,
                    ROWS,
                    Goal(99, BOUND),
                    clients=CLIENTS,
                    seconds=asked.seconds,
                ).run()
                took = time.monotonic() - began
                best = best_of_grid(flow, stages, asked.seconds)
            trials = report.after or report.before
            rate = sum(trial.rate for trial in trials) / len(trials)
            tried = len({trial.settings for trial in report.tried})
            slowest = max(trial.latency for trial in trials)
            before = sum(trial.rate for trial in report.before) / len(report.before)
            rows.append(
                [
                    name,
                    f"{before:.1f}",
                    f"{rate:.1f}",
                    f"{best:.1f}",
                    f"{rate / best:.2f}",
                    f"{slowest * 1e3:.0f}",
                    tried,
                    f"{took:.0f}",
                    ", ".join(f"{key}={value}" for key, value in report.changes.items()),
                ]
            )
            print(*rows[-1], flush=True)
    heads = ["graph", "before /s", "tuned /s", "best /s", "of it", "p99 ms", "tried", "s", "change"]
    print_table(f"tuned under p99 <= {BOUND * 1e3:.0f} ms, {CLIENTS} clients", heads, rows)
    print(ran_on)


if __name__ == "__main__":
    main()
