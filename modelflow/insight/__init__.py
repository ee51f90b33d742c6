"""Tools that measure a flow and advise changes: `doctor`, `tune` and `load`.

In: a running flow, a server, or recorded snapshots. Out: findings, settings, reports.

`modelflow.profile` takes the snapshots. It is a lower layer, because a flow records itself.
"""
