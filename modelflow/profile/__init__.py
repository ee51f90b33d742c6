"""Measurements of a running flow: snapshots of its statistics, metrics, traces.

In: `FlowStats` and the trace buffers of workers. Out: JSON snapshots (``snapshot.py``), Prometheus
metrics (``metrics.py``), trace files for Perfetto (``trace_events.py``), and the slowest requests.
"""
