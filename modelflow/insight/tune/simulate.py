"""A discrete-event simulation of a graph's requests, to predict rate and latency of settings.

Each stage has worker threads, a queue, and batches of the waiting rows. A call takes the measured
time. It takes longer while more calls compute than there are processors, or while calls compete for
a lock or a device. A request passes the stages one after the other, in topological order. For
parallel branches the simulated latency is therefore too long; the rate is not affected. After D.
Crankshaw et al., "InferLine", SoCC 2020.
"""

import heapq
import math
import random
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from modelflow.insight.load.report import Sample
from modelflow.insight.tune.cost import INTERPRETER, StageCost
from modelflow.insight.tune.settings import Settings, StageSettings


@dataclass(frozen=True)
class Outcome:
    """The simulated result of settings.

    Attributes:
        rate: Replies a second.
        latency: The latency of each request.
    """

    rate: float
    latency: Sample


def simulate(  # noqa: PLR0913 - each is a parameter of the load
    costs: Mapping[str, StageCost],
    settings: Settings,
    processors: int,
    *,
    clients: int | None = None,
    rate: float | None = None,
    requests: int = 600,
    seed: int = 0,
) -> Outcome:
    """Simulates a number of requests.

    Args:
        costs: The cost of each stage, in topological order.
        settings: The settings of the stages.
        processors: Number of processors.
        clients: Number of requests that are in flight at all times. Give either this or `rate`.
        rate: Requests a second that arrive in a Poisson process.
        requests: Number of requests to answer. The first fifth does not count.
        seed: Seed of the random numbers.
    """
    world = _World([_Stage(costs[name], settings.stages[name]) for name in costs], processors, seed)
    return world.run(clients, rate, requests)


class _Stage:
    """A stage in the simulation, with its queue and the number of busy threads."""

    __slots__ = ("cost", "is_waiting", "queue", "settings", "times", "working")

    def __init__(self, cost: StageCost, settings: StageSettings) -> None:
        self.cost = cost
        self.settings = settings
        self.queue: deque[int] = deque()  # the request of each row
        self.working = 0
        self.is_waiting = False  # a batch waits to be filled, until its time-out
        self.times = [cost.seconds(size) for size in range(settings.batch_size + 1)]


class _World:
    def __init__(self, stages: Sequence[_Stage], processors: int, seed: int) -> None:
        self._stages = stages
        self._processors = processors
        self._random = random.Random(seed)
        self._events: list[tuple[float, int, int, tuple[int, ...] | None]] = []
        self._count = 0
        self._computing = 0.0  # processors that the present calls want
        self._locked: Counter[str] = Counter()  # lock -> calls that want it
        self._now = 0.0
        self._began: list[float] = []
        self._rows: list[int] = []  # by request, its rows that its present stage has not finished
        self._ended: list[tuple[float, float]] = []
        self._is_closed = False  # whether the end of a request starts the next request

    def run(self, clients: int | None, rate: float | None, requests: int) -> Outcome:
        """Runs the simulation until a number of requests are answered."""
        self._is_closed, ended = clients is not None, self._ended
        if clients is not None:
            for _ in range(clients):
                self._enter()
        else:
            assert rate is not None
            self._at(0.0, -1, None)
        while len(ended) < requests and self._events:
            self._now, _, place, batch = heapq.heappop(self._events)
            if place < 0:
                assert rate is not None
                self._enter()
                self._at(self._random.expovariate(rate), -1, None)
            elif batch is None:
                self._stages[place].is_waiting = False
                self._begin(place, is_due=True)
            else:
                self._end(place, batch)
        skipped = ended[len(ended) // 5 :]
        if len(skipped) < 2:
            return Outcome(0.0, Sample())
        span = skipped[-1][0] - skipped[0][0]
        return Outcome(
            (len(skipped) - 1) / span if span > 0 else math.inf, Sample([t for _, t in skipped])
        )

    def _at(self, delay: float, place: int, batch: tuple[int, ...] | None) -> None:
        self._count += 1
        heapq.heappush(self._events, (self._now + delay, self._count, place, batch))

    def _enter(self) -> None:
        self._began.append(self._now)
        self._rows.append(0)
        self._pass(len(self._began) - 1, 0, is_new=True)

    def _pass(self, request: int, place: int, *, is_new: bool = False) -> None:
        """Passes a request to a stage, or to the next stage on its way."""
        while place < len(self._stages):
            stage = self._stages[place]
            whole = int(stage.cost.visits)
            rows = whole + (self._random.random() < stage.cost.visits - whole)
            if rows:
                self._rows[request] = rows
                stage.queue.extend([request] * rows)
                self._begin(place)
                return
            place += 1
        if is_new:
            return
        self._ended.append((self._now, self._now - self._began[request]))
        if self._is_closed:
            self._enter()

    def _begin(self, place: int, *, is_due: bool = False) -> None:
        stage = self._stages[place]
        settings = stage.settings
        while stage.queue and stage.working < settings.threads:
            size = min(len(stage.queue), settings.batch_size)
            if settings.threads > 1 and not settings.batch_timeout_ms:  # threads share a burst
                size = min(size, -(-len(stage.queue) // settings.threads))
            if size < settings.batch_size and settings.batch_timeout_ms and not is_due:
                if not stage.is_waiting:
                    stage.is_waiting = True
                    self._at(settings.batch_timeout_ms / 1e3, place, None)
                return
            batch = tuple(stage.queue.popleft() for _ in range(size))
            stage.working += 1
            self._at(self._lasts(stage, size), place, batch)
            is_due = False

    def _lasts(self, stage: _Stage, size: int) -> float:
        """Returns the duration of a call that begins now."""
        cost = stage.cost
        self._computing += cost.computing * cost.processors
        slower = max(1.0, self._computing / self._processors)
        held = 1.0  # how much longer the whole call takes
        self._locked[cost.lock] += 1
        if cost.lock == INTERPRETER:  # held while the call computes
            slower = max(slower, float(self._locked[cost.lock]))
        elif cost.lock:
            held = float(self._locked[cost.lock])
        held = max(held, stage.working / cost.at_once)
        drawn = self._random.random()
        spread = cost.spread[0 if drawn < 0.8 else 1 if drawn < 0.98 else 2]
        part = max(held, cost.computing * slower + 1.0 - cost.computing)
        return stage.times[size] * part * spread

    def _end(self, place: int, batch: tuple[int, ...]) -> None:
        stage = self._stages[place]
        stage.working -= 1
        self._computing -= stage.cost.computing * stage.cost.processors
        self._locked[stage.cost.lock] -= 1
        for request in batch:
            self._rows[request] -= 1
            if not self._rows[request]:
                self._pass(request, place + 1)
        self._begin(place)
