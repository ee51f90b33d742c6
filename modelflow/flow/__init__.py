"""The SDK: a graph and its running engine, as users hold it.

In: a graph (path, text or `Graph`) and what an application sends.
Out: results of `Flow.infer` and `Flow.map`, and `StreamIO` sessions.

``life.py`` builds, starts and stops the `modelflow.runtime.scheduler.Scheduler`; ``map.py`` sends
many items with a bound on those under way.
"""

from modelflow.flow.flow import Flow

__all__ = ["Flow"]
