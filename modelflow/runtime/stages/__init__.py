"""A running node: its calls, its outbox, its unit instances, its copies between devices.

In: batches from its inbox. Out: results in order, appended to the queues that follow.

`Call` wraps and freezes what a unit gives. `Outbox` restores each session's order by tickets, and
pauses a session that waits for too many. `Transfer` copies between devices; ``exclusive.py`` says
which arrays a unit may write to, ``executors/`` runs units in processes of their own.
"""
