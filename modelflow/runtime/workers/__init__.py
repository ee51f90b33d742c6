"""The worker threads of a stage, which take batches, call units and report, and their watchdog.

Input: batches. Output: results for the outbox, entries of the trace buffer, reports of errors.

The `Watchdog` names a node that has data but makes no progress. ``deadlines.py`` replaces rows
whose deadline has passed by errors. ``session_watch.py`` reports calls to the watchers of single
sessions.
"""
