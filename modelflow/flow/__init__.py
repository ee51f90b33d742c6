"""The SDK: the class `Flow`, which holds a graph and its running engine.

Input: a graph (path, text or `Graph`), and the data that an application sends.
Output: results of `Flow.infer` and `Flow.map`, and `StreamIO` sessions.

``life.py`` builds, starts and stops the `modelflow.runtime.scheduler.Scheduler`. ``map.py`` sends
many items, and limits the number of items in flight.
"""

from modelflow.flow.flow import Flow

__all__ = ["Flow"]
