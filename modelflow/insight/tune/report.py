"""The report of the tuner as a self-contained HTML page: the trials, the curves and the change."""

import math
from collections.abc import Sequence
from html import escape

from modelflow.insight.tune.cost import StageCost
from modelflow.insight.tune.settings import Settings
from modelflow.insight.tune.simulate import simulate
from modelflow.insight.tune.tuning import Trial, TuneReport

_WIDTH, _HEIGHT, _EDGE = 640, 320, 56
_CLIENTS = (1, 2, 4, 8, 16, 32, 64, 128)

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width">
<style>
:root {{ color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif }}
body {{ max-width: 60rem; margin: 2rem auto; padding: 0 1rem }}
table {{ border-collapse: collapse }}
th, td {{ padding: .2rem .8rem .2rem 0; text-align: right; white-space: nowrap }}
th:first-child, td:first-child {{ text-align: left; white-space: normal }}
pre {{ overflow-x: auto; padding: .8rem; border: 1px solid #8886 }}
.before {{ stroke: #888 }} .after {{ stroke: #0a7 }} .point {{ stroke: none }}
svg text {{ fill: currentColor; font-size: 12px }}
</style></head><body>
<h1>{title}</h1><p>{summary}</p>
<h2>Tried under real load</h2>{tried}
<h2>Rate and latency</h2>
<p>Lines: simulated, for 1 to {most} clients; points: measured.</p>{curve}
<h2>What each node costs</h2>{costs}
<h2>The change</h2><pre>{diff}</pre>{notes}
</body></html>
"""


def html_of(report: TuneReport, title: str, diff: str) -> str:
    """Returns the HTML page.

    Args:
        report: The result of the tuner.
        title: The heading of the page.
        diff: The change of the graph file.
    """
    notes = "".join(f"<li>{escape(note)}</li>" for note in report.notes)
    return _PAGE.format(
        title=escape(title),
        summary=escape(summary_of(report)),
        tried=_table(
            ("settings", "rate /s", "predicted", "p50 ms", "p95 ms", "p99 ms"),
            [_row(trial, report.tried[0].settings) for trial in report.tried],
        ),
        curve=_curve(report),
        most=_CLIENTS[-1],
        costs=_table(
            ("node", "rows a request", "t(n) in ms", "computing", "calls at once"),
            [_cost(cost) for cost in report.costs.values()],
        ),
        diff=escape(diff or "nothing: no settings are better"),
        notes=f"<h2>Notes</h2><ul>{notes}</ul>" if notes else "",
    )


def summary_of(report: TuneReport) -> str:
    """Returns the result in a sentence."""
    goal = report.goal
    if report.nearest is not None:
        one = report.nearest
        changes = report.tried[0].settings.name_changes(one.settings)
        if goal.bound is None:
            return (
                f"{goal.rate:g} requests a second cannot be answered; the best settings answer "
                f"{one.rate:.1f} a second: {changes}."
            )
        found = sorted(trial.latency for trial in report.tried if trial.settings == one.settings)
        span = " to ".join(dict.fromkeys(f"{time * 1e3:.1f}" for time in (found[0], found[-1])))
        return (
            f"No settings keep p{goal.percent:g} at {goal.bound * 1e3:g} ms under this load. The "
            f"nearest settings give a p{goal.percent:g} of {span} ms: {changes}."
        )
    if not report.after:
        return "No settings were found that are better than the present ones."
    what = "rate" if goal.rate is None else "speed"
    return f"The {what} is {report.gain:+.0%} with the change, compared in turns."


def _row(trial: Trial, before: Settings) -> list[str]:
    marks = (f"{trial.report.latency.percentile(percent) * 1e3:.1f}" for percent in (50, 95, 99))
    return [
        before.name_changes(trial.settings),
        f"{trial.rate:.1f}",
        f"{trial.predicted.rate:.1f}",
        *marks,
    ]


def _cost(cost: StageCost) -> list[str]:
    table = ", ".join(
        f"{rows}: {seconds * 1e3:.3g}" for rows, seconds in sorted(cost.table.items())
    )
    return [
        cost.name,
        f"{cost.visits:.3g}",
        table,
        f"{cost.computing:.0%}",
        "" if math.isinf(cost.at_once) else f"{cost.at_once:.1f}",
    ]


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in heads)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _curve(report: TuneReport) -> str:
    """Draws latency over rate, for the settings before and after the tuning."""
    shown: list[tuple[str, Settings, tuple[Trial, ...]]] = [
        ("before", report.tried[0].settings, report.before)
    ]
    if report.after:
        shown.append(("after", report.after[0].settings, report.after))
    lines = {kind: _simulate(report, one) for kind, one, _ in shown}
    points = {kind: [(t.rate, t.latency) for t in trials] for kind, _, trials in shown}
    everything = [point for found in (lines, points) for one in found.values() for point in one]
    most_rate = max(rate for rate, _ in everything) * 1.05
    most_time = max(time for _, time in everything) * 1.05

    def place(point: tuple[float, float]) -> tuple[float, float]:
        rate, time = point
        return (
            _EDGE + rate / most_rate * (_WIDTH - 2 * _EDGE),
            _HEIGHT - _EDGE - time / most_time * (_HEIGHT - 2 * _EDGE),
        )

    drawn = []
    for kind, line in lines.items():
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(place, line))
        drawn.append(f'<polyline class="{kind}" fill="none" stroke-width="2" points="{path}"/>')
        color = "#888" if kind == "before" else "#0a7"
        for x, y in map(place, points[kind]):
            drawn.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{color}"/>')
        x, y = place(line[-1])
        drawn.append(f'<text x="{x - 40:.1f}" y="{y - 8:.1f}">{kind}</text>')
    bottom, right = _HEIGHT - _EDGE, _WIDTH - _EDGE
    drawn.append(
        f'<path d="M{_EDGE} {_EDGE}V{bottom}H{right}" fill="none" stroke="currentColor"/>'
        f'<text x="{right - 90}" y="{bottom + 32}">{most_rate:.0f} requests/s</text>'
        f'<text x="{_EDGE}" y="{_EDGE - 12}">p{report.goal.percent:g} '
        f"{most_time * 1e3:.0f} ms</text>"
        f'<text x="{_EDGE - 12}" y="{bottom + 16}">0</text>'
    )
    label = "latency over rate, before and after"
    return (
        f'<svg role="img" aria-label="{label}" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}">'
        f"{''.join(drawn)}</svg>"
    )


def _simulate(report: TuneReport, settings: Settings) -> list[tuple[float, float]]:
    found = []
    for clients in _CLIENTS:
        outcome = simulate(report.costs, settings, report.processors, clients=clients)
        found.append((outcome.rate, outcome.latency.percentile(report.goal.percent)))
    return found
