"""Compares the tuner's settings with the best settings of graphs with known costs.

python benchmarks/tuned.py [--only waits steps] [--seconds 1.5]

- "waits": stages that sleep, one of which gains by batches.
- "interpreter": a stage that computes in Python, where more threads bring nothing.
- "steps": a model whose calls cost the same for 1 to 4 rows, and for 5 to 8.
- "device": a model on a device that runs one call at a time, with batches.
- "connection": a slow stage without batches whose threads share one lock.
- "behind": a model with large batches behind a slower stage.
- "stream": a unit that is called for the rows of each stream in order.
- "noise": calls of random duration.
- "two": two stages that use one device.
- "bound": a bound of the latency that no settings keep.

The best settings come from a grid that is simulated with the true costs. The three best of the grid
are then measured. The tuner has 90 s, and tries at most eight settings under load.
"""

import argparse
import itertools
import random
import statistics
import threading
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
from modelflow.insight.tune.cost import INTERPRETER, StageCost
from modelflow.insight.tune.search import Goal
from modelflow.insight.tune.settings import Settings
from modelflow.insight.tune.simulate import simulate
from modelflow.insight.tune.tuning import Tuning

GRAPH = """digraph known {{ fuse=off input [type=input] {nodes} output [type=output]
    input -> {chain} -> output }}"""
THREADS, BATCHES = (1, 2, 4, 6, 8, 12, 16), (1, 4, 8, 16, 32, 64)
CLIENTS, BOUND = 32, 0.3
ROWS = [{"input": 1}]


@dataclass(frozen=True)
class Known:
    """A stage whose cost is known: ``seconds(rows)``, slept or computed.

    Attributes:
        lock: The name of the device that every call of these stages holds.
        noise: The share by which durations differ at random.
    """

    name: str
    seconds: Callable[[int], float]
    is_computing: bool = False
    lock: str = ""
    noise: float = 0.0
    is_stream: bool = False

    def unit(self, locks: dict[str, threading.Lock]) -> Any:
        """Returns the stage's unit.

        Args:
            locks: The locks by their names.
        """
        drawn = random.Random(0)
        lock = locks.setdefault(self.lock, threading.Lock()) if self.lock else threading.RLock()

        def spend(rows: int) -> None:
            seconds = self.seconds(rows) * (1.0 + self.noise * drawn.uniform(-1.0, 1.0))
            if self.is_computing:
                end = time.thread_time() + seconds
                while time.thread_time() < end:
                    pass
            elif self.lock:
                with lock:
                    time.sleep(seconds)
            else:
                time.sleep(seconds)

        def work(values: list[Any]) -> list[Any]:
            spend(len(values))
            return values

        class InOrder(modelflow.FlowUnit):
            """A unit that is called for the rows of each stream in order."""

            SPEC = modelflow.FlowUnitSpec(
                self.name,
                {"cpu": lambda: InOrder()},  # noqa: PLW0108 - the name is not bound yet
                inputs=(modelflow.Port("in"),),
                outputs=(modelflow.Port("out"),),
                kind=modelflow.Stream(modelflow.Count.SAME),
            )

            def process(self, ctx: modelflow.Context) -> None:
                """Spends the time of the rows, and gives them on."""
                spend(len(ctx.input()))
                ctx.emit(ctx.input())

        if self.is_stream:
            return InOrder
        work.__name__ = self.name
        return modelflow.flowunit(work, batched=True)

    @property
    def cost(self) -> StageCost:
        """The same for the simulation."""
        table = {rows: self.seconds(rows) for rows in range(1, 65)}
        computing, lock = (1.0, INTERPRETER) if self.is_computing else (0.0, self.lock)
        return StageCost(self.name, 1.0, table, computing, lock=lock)

    @property
    def batches(self) -> tuple[int, ...]:
        """The batch sizes of the grid; only single rows if batches save nothing."""
        return BATCHES if self.seconds(8) < 7.9 * self.seconds(1) else (1,)


@modelflow.flowunit(kind="expand")
def copies(value: Any) -> list[Any]:
    """Makes a stream of eight rows from a request."""
    return [value] * 8


@modelflow.flowunit(kind="collapse")
def first(values: list[Any]) -> Any:
    """Makes a row from a stream."""
    return values[0]


@dataclass(frozen=True)
class Case:
    """A graph, its load and its bound.

    Attributes:
        rows: Number of rows that an expand makes of each request, before the stages.
    """

    stages: tuple[Known, ...]
    clients: int = CLIENTS
    bound: float = BOUND
    rows: int = 1

    @property
    def text(self) -> str:
        """The graph; every node has one thread and single rows."""
        names = [stage.name for stage in self.stages]
        nodes = " ".join(f"{name} [threads=1, batch_size=1]" for name in names)
        chain = names if self.rows == 1 else ["copies", *names, "first"]
        return GRAPH.format(nodes=nodes, chain=" -> ".join(chain))

    @property
    def costs(self) -> dict[str, StageCost]:
        """The costs for the simulation."""
        return {stage.name: replace(stage.cost, visits=float(self.rows)) for stage in self.stages}


GRAPHS = {
    "waits": Case(
        (
            Known("decode", lambda n: 0.012 * n),
            Known("model", lambda n: 0.030 + 0.0025 * n),
            Known("post", lambda n: 0.003 * n),
        )
    ),
    "interpreter": Case(
        (
            Known("fetch", lambda n: 0.020 * n),
            Known("parse", lambda n: 0.004 * n, is_computing=True),
            Known("store", lambda n: 0.010 + 0.001 * n),
        )
    ),
    "steps": Case(
        (
            Known("read", lambda n: 0.008 * n),
            Known("model", lambda n: 0.025 * -(-n // 4)),
            Known("write", lambda n: 0.002 * n),
        )
    ),
    "device": Case(
        (
            Known("decode", lambda n: 0.006 * n),
            Known("model", lambda n: 0.020 + 0.004 * n, lock="device"),
        )
    ),
    "connection": Case(
        (
            Known("fetch", lambda n: 0.010 * n, lock="connection"),
            Known("store", lambda n: 0.015 * n),
        ),
        bound=0.6,
    ),
    "behind": Case(
        (
            Known("decode", lambda n: 0.050 * n),
            Known("model", lambda n: 0.060 + 0.0005 * n, lock="device"),
        )
    ),
    "stream": Case(
        (
            Known("decode", lambda n: 0.012 * n),
            Known("track", lambda n: 0.004 * n, is_stream=True),
            Known("model", lambda n: 0.020 + 0.002 * n),
        ),
        clients=4,
        bound=1.0,
        rows=8,
    ),
    "noise": Case(
        (
            Known("decode", lambda n: 0.012 * n, noise=0.8),
            Known("model", lambda n: 0.030 + 0.0025 * n, noise=0.8),
        )
    ),
    "two": Case(
        (
            Known("detect", lambda n: 0.010 * n, lock="device"),
            Known("classify", lambda n: 0.010 + 0.001 * n, lock="device"),
        ),
        bound=1.0,
    ),
    "bound": Case(
        (
            Known("decode", lambda n: 0.012 * n),
            Known("model", lambda n: 0.030 + 0.0025 * n, lock="device"),
        ),
        bound=0.04,
    ),
}


def grid(start: Settings, stages: tuple[Known, ...]) -> list[Settings]:
    """Returns all settings of the grid, the stages' threads and batches multiplied out."""
    choices = []
    for known in stages:
        stage = start.stages[known.name]
        choices.append(
            [
                replace(stage.with_batch(size, stage.queue_size), threads=count)
                for size in known.batches
                for count in THREADS
            ]
            if not known.is_stream
            else [stage]
        )
    names = [known.name for known in stages]
    return [Settings(dict(zip(names, found, strict=True))) for found in itertools.product(*choices)]


def rank_grid(start: Settings, case: Case) -> list[Settings]:
    """Returns the three settings of the grid that the true costs make the best."""
    goal = Goal(99, case.bound)

    def score(settings: Settings, requests: int) -> tuple[float, float]:
        found = simulate(case.costs, settings, 2, clients=case.clients, requests=requests)
        return goal.score(found.rate, found.latency.percentile(99))

    found = sorted(grid(start, case.stages), key=lambda one: score(one, 300), reverse=True)
    return sorted(found[:30], key=lambda one: score(one, 1500), reverse=True)[:3]


def best_of_grid(flow: Any, case: Case, seconds: float) -> tuple[float, float]:
    """Returns the measured rate and p99 of the best settings of the grid.

    If none keeps the bound, the settings with the smallest p99 are the best.
    """
    start = Settings.of(flow.scheduler.plan)
    measured = []
    for settings in rank_grid(start, case):
        now = Settings.of(flow.scheduler.plan)
        flow.reconfigure(now.changes_to(Settings({**now.stages, **settings.stages})))
        reports = [
            run(
                FlowTarget(flow, ROWS),
                LoadOptions(clients=case.clients, seconds=seconds, warm_up=0.2),
            )
            for _ in range(2)
        ]
        p99 = max(report.latency.percentile(99) for report in reports)
        measured.append((statistics.mean(report.rate for report in reports), p99))
    flow.reconfigure(Settings.of(flow.scheduler.plan).changes_to(start))
    return max(measured, key=lambda one: Goal(99, case.bound).score(*one))


def main() -> None:
    """Tunes each graph and compares."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=GRAPHS, nargs="+", default=list(GRAPHS))
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--told", action="store_true", help="also print the tuner's progress")
    asked = parser.parse_args()
    rows = []
    with machine() as ran_on:
        for name in asked.only:
            case = GRAPHS[name]
            locks: dict[str, threading.Lock] = {}
            units = [stage.unit(locks) for stage in case.stages]
            with modelflow.Flow(case.text, units=[*units, copies, first]) as flow:
                began = time.monotonic()
                report = Tuning(
                    flow,
                    ROWS,
                    Goal(99, case.bound),
                    clients=case.clients,
                    seconds=asked.seconds,
                    told=print if asked.told else lambda _: None,
                ).run()
                took = time.monotonic() - began
                best, best_p99 = best_of_grid(flow, case, asked.seconds)
            trials = report.after or report.before
            rate = sum(trial.rate for trial in trials) / len(trials)
            slowest = max(trial.latency for trial in trials)
            before = sum(trial.rate for trial in report.before) / len(report.before)
            share = rate / best
            if report.nearest is not None:
                rate, slowest = report.nearest.rate, report.nearest.latency
                share = best_p99 / slowest
            rows.append(
                [
                    name,
                    f"{before:.1f}",
                    f"{rate:.1f}",
                    f"{best:.1f}",
                    f"{share:.2f}",
                    f"{slowest * 1e3:.0f}",
                    len({trial.settings for trial in report.tried}),
                    f"{took:.0f}",
                    "bound not kept"
                    if report.nearest is not None
                    else ", ".join(f"{key}={value}" for key, value in report.changes.items()),
                ]
            )
            print(*rows[-1], flush=True)
    heads = ["graph", "before /s", "tuned /s", "best /s", "of it", "p99 ms", "tried", "s", "change"]
    print_table("tuned under a bound of p99 with clients that wait", heads, rows)
    print(ran_on)


if __name__ == "__main__":
    main()
