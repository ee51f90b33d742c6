"""Which replica a front should choose, where several fronts share many: a simulation, not a run.

Each front sees its own calls alone; or, beside them, the queue length that each answer has told.
Service times are exponential: of one mean, or of one in ten replicas four times as long. Printed
are the waits in units of the mean service time, and how unevenly the replicas were used.

    python benchmarks/replica_choice.py
    python benchmarks/replica_choice.py --fronts 50 --replicas 50 --load 0.9
"""

import argparse
import heapq
import random
import statistics
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

QUICK = 2_000


@dataclass
class Replica:
    """A queue and its server.

    Attributes:
        mean: Its mean service time.
        queue: The arrival time of each call; the first call is being served.
        done: The number of calls that it has served.
    """

    mean: float
    queue: deque[float] = field(default_factory=deque)
    done: int = 0


@dataclass
class Front:
    """A front's knowledge of each replica.

    Attributes:
        own: The calls of this front at the replica.
        told: The calls of other fronts at the replica, by its last answer.
    """

    own: list[int]
    told: list[int]


Choose = Callable[[Front, list[int]], int]


def own(front: Front, places: list[int]) -> int:
    """Returns the replica with the fewest calls of this front."""
    return min(places, key=lambda place: front.own[place])


def told(front: Front, places: list[int]) -> int:
    """Returns the replica with the fewest calls: the front's own, and others by its last answer."""
    return min(places, key=lambda place: front.own[place] + front.told[place])


POLICIES: dict[str, tuple[Choose, int | None]] = {
    "any": (own, 1),
    "own calls, of two": (own, 2),
    "own calls, of all": (own, None),
    "told queue, of two": (told, 2),
    "told queue, of all": (told, None),
}


def simulate(
    policy: str, given: argparse.Namespace, *, is_uneven: bool
) -> tuple[list[float], float]:
    """Simulates the calls; returns their waits, and the spread of calls among the replicas."""
    fronts, replicas = given.fronts, given.replicas
    draw = random.Random(given.seed)
    choose, most = POLICIES[policy]
    there = [Replica(4.0 if is_uneven and place % 10 == 0 else 1.0) for place in range(replicas)]
    known = [Front([0] * replicas, [0] * replicas) for _ in range(fronts)]
    rate = given.load * sum(1 / one.mean for one in there)
    owners: list[deque[int]] = [deque() for _ in there]
    ends: list[tuple[float, int]] = []
    waits: list[float] = []
    arrival = draw.expovariate(rate)
    places = list(range(replicas))
    while len(waits) < given.calls:
        if ends and ends[0][0] <= arrival:
            now, place = heapq.heappop(ends)
            one, front = there[place], known[owners[place].popleft()]
            one.queue.popleft()
            one.done += 1
            front.own[place] -= 1
            front.told[place] = len(one.queue) - front.own[place]
        else:
            now, arrival = arrival, arrival + draw.expovariate(rate)
            number = draw.randrange(fronts)
            some = places if most is None else draw.sample(places, min(most, replicas))
            draw.shuffle(some)
            place = choose(known[number], some)
            one = there[place]
            known[number].own[place] += 1
            owners[place].append(number)
            one.queue.append(now)
            if len(one.queue) > 1:
                continue
        if one.queue:
            waits.append(now - one.queue[0])
            heapq.heappush(ends, (now + draw.expovariate(1 / one.mean), place))
    done = [one.done * one.mean for one in there]
    return waits, statistics.pstdev(done) / statistics.mean(done)


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fronts", type=int, default=2)
    parser.add_argument("--replicas", type=int, default=50)
    parser.add_argument("--load", type=float, default=0.9, help="part of the replicas' capacity")
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="only show that the program runs")
    given = parser.parse_args()
    given.calls = QUICK if given.quick else given.calls
    print(f"{given.fronts} fronts, {given.replicas} replicas, load {given.load:g}")
    print(f"{'choice':22} {'replicas':8} {'mean':>6} {'p99':>6} {'uneven':>7}")
    for is_uneven in (False, True):
        for policy in POLICIES:
            waits, spread = simulate(policy, given, is_uneven=is_uneven)
            p99 = statistics.quantiles(waits, n=100)[98]
            kind = "uneven" if is_uneven else "alike"
            print(f"{policy:22} {kind:8} {statistics.mean(waits):6.2f} {p99:6.2f} {spread:7.3f}")


if __name__ == "__main__":
    main()
