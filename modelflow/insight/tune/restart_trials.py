"""Trials of settings that need a restart: devices, engine threads, allowed batch sizes.

Example: ``infer.intra_op_threads`` 1 and 2, and ``infer.device`` cuda. With the present values
these are 3 x 2 = 6 variants. Each is measured once. The present graph and the best variant are then
measured again.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from modelflow.errors import TuningError
from modelflow.insight.tune.search import Goal

MOST_VARIANTS = 16
"""The most combinations that are tried; each trial starts the graph and loads its models."""

# A change needs at least this gain.
_WORTH = 0.03


@dataclass(frozen=True)
class VariantTrial:
    """A trial of a variant under real load.

    Attributes:
        changes: The changes of the present graph, as for ``--set``; empty for the present graph.
        rate: Successful replies a second.
        latency: The percentile of the goal, in seconds.
    """

    changes: Mapping[str, Any]
    rate: float
    latency: float

    @property
    def name(self) -> str:
        """The changes in words: ``infer.device=cuda``, or ``as it is``."""
        return ", ".join(f"{key}={value}" for key, value in self.changes.items()) or "as it is"


@dataclass(frozen=True)
class VariantsReport:
    """The result of the trials of all variants.

    Attributes:
        tried: All trials, in their order.
        changes: The changes of the best variant; empty if the present graph is the best.
        gain: The gain of the best variant over the present graph, as a share. The better trial of
            each counts. 0 if no variant looked better.
        failed: The variants that could not be measured, with the reasons.
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
        measure: Starts the graph with some changes and loads it. Returns the successful replies a
            second and the percentile of their latency in seconds. Raises `TuningError` if the
            measurement is not possible.
        values: ``node.attribute`` -> the values to try in addition to the present value.
        goal: The goal of the tuning.
        told: Called with each line of the progress.

    Raises:
        TuningError: The present graph cannot be measured.
        Exception: Any other exception of ``measure``.
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
    # The better trial counts, because outside disturbances only make a trial worse.
    was, now = (max(score(one)[1] for one in trials) for trials in (before, after))
    gain = now / was - 1.0 if was > 0 else 0.0
    # Both trials must meet the bound of the goal. If the present graph misses the bound, they must
    # come at least as near to it.
    is_kept = min(score(one)[0] for one in after) >= min(1.0, max(score(one)[0] for one in before))
    is_better = is_kept and (gain > _WORTH or score(present)[0] < 1.0)
    return VariantsReport(tuple(tried), best.changes if is_better else {}, gain, tuple(failed))


def _combinations(values: Mapping[str, Sequence[str]]) -> list[dict[str, str]]:
    """Returns the changes of each variant, without the present graph."""
    pairs = [
        [None, *((name, value) for value in dict.fromkeys(some))]  # None: the present value
        for name, some in values.items()
    ]
    found = [dict(pair for pair in one if pair) for one in itertools.product(*pairs)]
    return [changes for changes in found if changes]
