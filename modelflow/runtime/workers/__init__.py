"""The threads of a stage: they take batches, call units, report, and are watched.

In: batches. Out: results for the outbox, entries of the trace buffer, reports of errors.

The `Watchdog` names a node that has data but does not move. ``deadlines.py`` drops rows whose time
has passed, ``session_watch.py`` informs watchers of single sessions.
"""
