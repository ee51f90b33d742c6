"""The statistics of a flow: counters that workers write without locks, and their sums.

Input: events of workers and queues. Output: `FlowStats`, `NodeStats`, histograms.
"""

from modelflow.runtime.stats.counters import QueueStats, WorkerStats
from modelflow.runtime.stats.flow_stats import FlowStats, RequestStats
from modelflow.runtime.stats.histogram import Histogram
from modelflow.runtime.stats.node_stats import GONE, NodeStats, add_nodes
from modelflow.runtime.stats.processor_time import NOTHING, ThreadTime, read_schedule

__all__ = [
    "GONE",
    "NOTHING",
    "FlowStats",
    "Histogram",
    "NodeStats",
    "QueueStats",
    "RequestStats",
    "ThreadTime",
    "WorkerStats",
    "add_nodes",
    "read_schedule",
]
