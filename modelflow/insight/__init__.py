"""Tools that measure a flow and say what to change: `doctor`, `tune` and `load`.

In: a running flow, a server, or recorded snapshots. Out: findings, settings, reports.

`modelflow.profile` takes the snapshots; it stands below, because a flow records itself.
"""
