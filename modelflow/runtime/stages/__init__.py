"""A running node: its calls, its outbox, its unit instances, its copies between devices.

In: batches from its inbox. Out: results in order, appended to the next queues.

`Call` wraps and freezes the values that a unit emits. `Outbox` restores each session's order by
tickets, and pauses a session while too many of its results wait. `Transfer` copies between devices.
``sharing.py`` decides which arrays a unit may write to. ``executors/`` runs units in processes of
their own.
"""
