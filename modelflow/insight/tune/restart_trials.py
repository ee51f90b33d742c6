"""What only a new start can change: devices, an engine's threads, allowed sizes of batches.

``infer.intra_op_threads`` 1 and 2 and ``infer.device`` cuda, each beside the present value, are six
graphs. Each is measured once; the present one and the best of the others once more.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from modelflow.errors import TuningError
from modelflow.insight.tune.search import Goal

MOST_VARIANTS = 16
"""Combinations that are tried at most: each starts the graph, with its models."""

# A gain that is smaller is not worth a change.
_WORTH = 0.03


@dataclass(frozen=True)
class VariantTrial:
    """One variant under real load.

    Attributes:
        changes: What it changes of the present graph, as ``--set`` takes it; empty: nothing.
        rate: Requests a second that were answered.
        latency: The percentile that is asked for, in seconds.
    """

    changes: Mapping[str, Any]
    rate: float
    latency: float

    @property
    def name(self) -> str:
        """``infer.device=cuda``, or ``as it is``."""
        return ", ".join(f"{key}={value}" for key, value in self.changes.items()) or "as it is"


@dataclass(frozen=True)
class VariantsReport:
    """What was found.

    Attributes:
        tried: All trials, in their order.
        changes: Those of the best variant; empty: none is better than the present graph.
        gain: How much better the best one is than the present graph, as a share, of the better
            trials of each; 0 where none looked better.
        failed: What could not be measured, and why.
    """

    tried: tuple[VariantTrial, ...]
    changes: Mapping[str, Any]
    gain: float
    failed: tuple[str, ...]


def try_variants(
    measure: Callable[[Mapping[str, Any]], tuple[float, float]],
    values: Mapping[str, Sequence[str]],
    goal: Goal,
    told: Callable[[str], None] = lambda _: None,
) -> VariantsReport:
    """Measures every combination of some values, and compares the best with the present graph.

    Args:
        measure: Starts the graph with some changes and loads it; returns the requests a second that
            were answered, and the percentile of their latency, in seconds. It raises `TuningError`
            where that cannot be done.
        values: ``node.attribute`` -> the values to try beside the present one.
        goal: What is wanted.
        told: Is told what happens, a line each.

    Raises:
        TuningError: the present graph cannot be measured.
        Exception: whatever else ``measure`` raises.
    """
    tried: list[VariantTrial] = []
    failed: list[str] = []

    def trial(changes: Mapping[str, Any]) -> VariantTrial:
        found = VariantTrial(changes, *measure(changes))
        tried.append(found)
        told(f"  {found.rate:.1f}/s, p{goal.percent:g} {found.latency * 1e3:.1f} ms: {found.name}")
        return found

    def score(one: VariantTrial) -> tuple[float, float]:
        return goal.score(one.rate, one.latency)

    present, found = trial({}), []
    for changes in _combinations(values):
        try:
            found.append(trial(changes))
        except TuningError as error:
            failed.append(f"{VariantTrial(changes, 0.0, 0.0).name}: {error}")
            told(f"  not tried: {failed[-1]}")
    best = max(found, key=score, default=present)
    if score(best) <= score(present):
        return VariantsReport(tuple(tried), {}, 0.0, tuple(failed))
    before, after = [present, trial({})], [best, trial(best.changes)]
    # What disturbs a trial from outside only makes it worse.
    was, now = (max(score(one)[1] for one in trials) for trials in (before, after))
    gain = now / was - 1.0 if was > 0 else 0.0
    # What is demanded is kept by both trials, or, where the present graph does not keep it, nearer.
    is_kept = min(score(one)[0] for one in after) >= min(1.0, max(score(one)[0] for one in before))
    is_better = is_kept and (gain > _WORTH or score(present)[0] < 1.0)
    return VariantsReport(tuple(tried), best.changes if is_better else {}, gain, tuple(failed))


def _combinations(values: Mapping[str, Sequence[str]]) -> list[dict[str, str]]:
    """Returns what each variant changes; the present graph is none of them."""
    pairs = [
        [None, *((name, value) for value in dict.fromkeys(some))]  # None: as it is
        for name, some in values.items()
    ]
    found = [dict(pair for pair in one if pair) for one in itertools.product(*pairs)]
    return [changes for changes in found if changes]
