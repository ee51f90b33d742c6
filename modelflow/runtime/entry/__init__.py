"""The entry and the exit of a graph: back-pressure, positions, results.

In: buffers from `StreamIO` and requests. Out: segments in the first queues; results and ends at the
sinks.

The `Submitter` has one lock: under it the room is looked at, the row counted and appended. Requests
that arrive together enter as a group (``request_group.py``). A row that finds no room gets a
`Backpressure`, which says when there is room again.
"""
